/** Names and texts of the errors that a guest's kernel gives, by number (Linux, all architectures). */
const ERRORS: ReadonlyMap<number, readonly [name: string, text: string]> = new Map([
  [1, ["EPERM", "operation not permitted"]],
  [2, ["ENOENT", "no such file or directory"]],
  [3, ["ESRCH", "no such process"]],
  [4, ["EINTR", "interrupted"]],
  [5, ["EIO", "input/output error"]],
  [7, ["E2BIG", "argument list too long"]],
  [8, ["ENOEXEC", "not a program"]],
  [9, ["EBADF", "bad file descriptor"]],
  [11, ["EAGAIN", "resource temporarily unavailable"]],
  [12, ["ENOMEM", "out of memory"]],
  [13, ["EACCES", "permission denied"]],
  [16, ["EBUSY", "resource busy"]],
  [17, ["EEXIST", "file exists"]],
  [18, ["EXDEV", "crosses file systems"]],
  [20, ["ENOTDIR", "a file where a directory is needed"]],
  [21, ["EISDIR", "is a directory"]],
  [22, ["EINVAL", "invalid argument"]],
  [23, ["ENFILE", "too many open files in the system"]],
  [24, ["EMFILE", "too many open files"]],
  [26, ["ETXTBSY", "program file is being written"]],
  [27, ["EFBIG", "file too large"]],
  [28, ["ENOSPC", "no space left on device"]],
  [30, ["EROFS", "read-only file system"]],
  [32, ["EPIPE", "broken pipe"]],
  [36, ["ENAMETOOLONG", "name too long"]],
  [38, ["ENOSYS", "not supported by this kernel"]],
  [39, ["ENOTEMPTY", "directory not empty"]],
  [40, ["ELOOP", "too many symbolic links"]],
  [95, ["EOPNOTSUPP", "operation not supported"]],
  [104, ["ECONNRESET", "connection reset"]],
  [107, ["ENOTCONN", "not connected"]],
  [110, ["ETIMEDOUT", "timed out"]],
  [111, ["ECONNREFUSED", "connection refused"]],
  [116, ["ESTALE", "stale file handle"]],
  [122, ["EDQUOT", "disk quota exceeded"]],
]);

/** Number of ENOENT: it is not there. */
export const ENOENT = 2;
/** Number of ENOTDIR: something above it is no directory. */
export const ENOTDIR = 20;
/** Number of E2BIG: more arguments than the kernel takes. */
export const E2BIG = 7;
/** Number of EPIPE: the other end is gone. */
export const EPIPE = 32;
/** Number of ETIMEDOUT: not in time. */
export const ETIMEDOUT = 110;

/** An errno in words, as `ENOENT (no such file or directory)`. */
export function errnoText(errno: number): string {
  const known = ERRORS.get(errno);
  return known === undefined ? `errno ${errno}` : `${known[0]} (${known[1]})`;
}

/** The codes of `native/src/abi` that are no errno. */
const CODES: ReadonlyMap<number, string> = new Map([
  [-10_000, "the native code panicked"],
  [-10_001, "the core is not open"],
  [-10_002, "the handle names nothing"],
  [-10_003, "the layout does not fit"],
]);

/** A call into the native library that failed. */
export class NativeError extends Error {
  /** What it answered: a negated errno, or one of the library's own codes. */
  readonly code: number;

  /** Names what could not be done and says why. */
  constructor(what: string, code: number) {
    super(`Cannot ${what}: ${CODES.get(code) ?? errnoText(-code)}`);
    this.name = "NativeError";
    this.code = code;
  }
}

/** Passes a result on unless it is an error. Throws {@link NativeError}. */
export function checked(what: string, result: number): number {
  if (result < 0) throw new NativeError(what, result);
  return result;
}
