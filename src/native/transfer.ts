import type { Core } from "./core.ts";
import { errnoText } from "./errno.ts";
import { checked } from "./status.ts";

/** What a transfer fails with besides an errno: `native/src/file/failure.rs`. */
export const TransferStatus = {
  isDirectory: 10_001,
  notRegular: 10_002,
  notDirectory: 10_003,
  underReserve: 10_004,
  overLimit: 10_005,
  refused: 10_006,
  cancelled: 10_007,
} as const;

/** Number of ENOENT: it is not there. */
export const ENOENT = 2;
/** Number of ENOTDIR: something above it is no directory. */
export const ENOTDIR = 20;

/** Longest sentence about a failure: room for two paths, in bytes. */
const SENTENCE_BYTES = 16 * 1024;

/** A transfer that failed. */
export class TransferError extends Error {
  /** An errno, or one of {@link TransferStatus}. */
  readonly status: number;

  /** Makes the error; the message is one line that names the path and what could not be done. */
  constructor(status: number, message: string) {
    super(message);
    this.name = "TransferError";
    this.status = status;
  }
}

/**
 * Runs one operation of a transfer and gives its value. What `start` lends to the native side must
 * be used after this has ended, so that it is kept until then. Throws {@link TransferError}.
 */
export async function transfer(core: Core, start: (token: number) => number): Promise<number> {
  let used = 0;
  const { status, value } = await core.operation((token) => {
    used = token;
    return start(token);
  });
  if (status === 0) return value;
  checked("move a file", status);
  const sentence = new Uint8Array(SENTENCE_BYTES);
  const length = core.symbols.guestd_failure_take(used, sentence, sentence.length);
  const said = new TextDecoder().decode(sentence.subarray(0, Math.max(length, 0)));
  const ours = status >= TransferStatus.isDirectory;
  throw new TransferError(status, ours ? said : `${said}: ${errnoText(status)}`);
}
