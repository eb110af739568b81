import { errnoText } from "./errno.ts";

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
