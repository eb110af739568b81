import type { Core } from "./core.ts";
import { checked, errnoText } from "./errno.ts";

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

/** A window of lines, counted from 1 and inclusive. */
export interface LineRange {
  /** First line. */
  readonly first: bigint;
  /** Last line. */
  readonly last: bigint;
}

/** What a tree may have. */
export interface TreeLimits {
  /** Members, the root among them. */
  readonly members: number;
  /** Bytes of all files together. */
  readonly bytes: number;
}

/** Where bodies go that cannot lie beside their target, and what must stay free. */
export interface UploadSettings {
  /** Directory for spooled bodies; the system's own for temporary files is the next choice. */
  readonly spoolDir: string;
  /** Bytes that must stay available on a file system that is written; 0 for no guard. */
  readonly reserveBytes: bigint;
}

/**
 * A file or a tree on its way in or out, by a native thread of its own. What it is asked for is done in the order of the
 * calls, and throws {@link TransferError}.
 *
 * Invariant: the native side knows the handle until `close`, before which nothing is seen of an upload that is not
 * finished, and after which nothing is left of it.
 */
export class Transfer {
  /** Ends when the transfer can be used, with the size that a file claims to have, in bytes: 0 for all else. */
  readonly begun: Promise<number>;
  readonly #core: Core;
  #handle = 0;
  #closed: Promise<void> | undefined;

  private constructor(core: Core, start: (token: number) => number) {
    this.#core = core;
    this.begun = this.#operation((token) => this.#handle = start(token));
    // Whoever is interested in it waits for it later.
    this.begun.catch(() => {});
  }

  /** Begins to read a file, whole or a window of its lines. */
  static readFile(core: Core, path: string, lines?: LineRange): Transfer {
    const name = new TextEncoder().encode(path);
    const { first, last } = lines ?? { first: 0n, last: 0n };
    const { guestd_file_open: open } = core.symbols;
    return new Transfer(core, (token) => open(name, name.length, first, last, token));
  }

  /** Measures a directory and begins to pack it. */
  static readTree(core: Core, path: string, limits: TreeLimits): Transfer {
    const name = new TextEncoder().encode(path);
    const [members, bytes] = [BigInt(limits.members), BigInt(limits.bytes)];
    const { guestd_tree_open: open } = core.symbols;
    return new Transfer(core, (token) => open(name, name.length, members, bytes, token));
  }

  /** Begins to write a file, with `mode` unless undefined. */
  static writeFile(
    core: Core,
    path: string,
    mode: number | undefined,
    settings: UploadSettings,
  ): Transfer {
    const name = new TextEncoder().encode(path);
    const spool = new TextEncoder().encode(settings.spoolDir);
    const { guestd_upload_file: open } = core.symbols;
    return new Transfer(
      core,
      (token) =>
        open(name, name.length, mode ?? -1, settings.reserveBytes, spool, spool.length, token),
    );
  }

  /** Begins to spool an archive for the directory `root`. */
  static writeTree(core: Core, root: string, settings: UploadSettings): Transfer {
    const name = new TextEncoder().encode(root);
    const spool = new TextEncoder().encode(settings.spoolDir);
    const { guestd_upload_tree: open } = core.symbols;
    return new Transfer(
      core,
      (token) => open(name, name.length, settings.reserveBytes, spool, spool.length, token),
    );
  }

  /** Fills `bytes` with what comes next; how many there are, fewer than fit only at the end. */
  read(bytes: Uint8Array<ArrayBuffer>): Promise<number> {
    return this.#carry(bytes);
  }

  /** Takes bytes, and gives them back when they may be used again. */
  async write(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
    await this.#carry(bytes);
    return bytes;
  }

  /** Puts a file in its place, or checks an archive against `limits` and extracts it. */
  async finish(limits: TreeLimits): Promise<void> {
    const { guestd_transfer_finish: finish } = this.#core.symbols;
    const [members, bytes] = [BigInt(limits.members), BigInt(limits.bytes)];
    await this.#operation((token) => finish(this.#handle, members, bytes, token));
  }

  /**
   * Ends it, wherever it is: what has not begun is dropped at once, an extraction stops between two members. Ends when
   * nothing more is done. Never throws.
   */
  close(): Promise<void> {
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    const { guestd_transfer_close: close } = this.#core.symbols;
    await this.#core.wake.operation((token) => close(this.#handle, token));
  }

  /** Lends bytes to the native side until they have been filled or taken. */
  async #carry(bytes: Uint8Array<ArrayBuffer>): Promise<number> {
    const { guestd_transfer_carry: carry } = this.#core.symbols;
    const count = await this.#operation((token) => carry(this.#handle, bytes, bytes.length, token));
    // The native side holds no reference: until here, this keeps them from being collected.
    return Math.min(count, bytes.length);
  }

  async #operation(start: (token: number) => number): Promise<number> {
    let used = 0;
    const { status, value } = await this.#core.wake.operation((token) => {
      used = token;
      return start(token);
    });
    if (status === 0) return value;
    checked("move a file", status);
    throw this.#failure(used, status);
  }

  #failure(token: number, status: number): TransferError {
    const sentence = new Uint8Array(SENTENCE_BYTES);
    const { guestd_failure_take: take } = this.#core.symbols;
    const length = take(token, sentence, sentence.length);
    const said = length < 0
      ? "Cannot finish a file operation: it was given up"
      : new TextDecoder().decode(sentence.subarray(0, length));
    const ours = status >= TransferStatus.isDirectory;
    return new TransferError(status, ours ? said : `${said}: ${errnoText(status)}`);
  }
}
