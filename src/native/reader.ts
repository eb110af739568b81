import type { Core } from "./core.ts";
import { checked } from "./status.ts";
import { transfer, TransferError, TransferStatus } from "./transfer.ts";

/**
 * What one reading gives at most, in bytes: below what the allocator maps anew each time, whose pages would cost more
 * than what is put into them.
 */
const CHUNK_BYTES = 120 * 1024;

/** What opening gives at most: one more than what is sent with its length if it is all. */
const FIRST_BYTES = 256 * 1024 + 1;

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

/** A download that was opened. */
export interface Opened {
  /** Reads on. */
  readonly reader: Reader;
  /** The first bytes. */
  readonly first: Uint8Array<ArrayBuffer>;
  /** Whether those are all. */
  readonly ended: boolean;
}

/**
 * A file, a window of its lines or a packed tree, read from front to end by native threads.
 *
 * Invariant: the native side holds the handle until `close`.
 */
export class Reader implements Disposable {
  /** What one reading gives at most, in bytes. */
  readonly chunkBytes: number = CHUNK_BYTES;
  readonly #core: Core;
  readonly #handle: number;
  #closed = false;

  private constructor(core: Core, handle: number) {
    this.#core = core;
    this.#handle = handle;
  }

  /** Opens a file, whole or a window of its lines, unless `left` comes before. Throws `TransferError`. */
  static openFile(
    core: Core,
    path: string,
    left: AbortSignal,
    lines?: LineRange,
  ): Promise<Opened> {
    const name = new TextEncoder().encode(path);
    const { first, last } = lines ?? { first: 0n, last: 0n };
    return Reader.#open(
      core,
      left,
      (out, token) =>
        core.symbols.guestd_file_open(name, name.length, first, last, out, out.length, token),
    );
  }

  /** Measures a directory and opens it as an archive, as {@link Reader.openFile}. */
  static openTree(
    core: Core,
    path: string,
    left: AbortSignal,
    limits: TreeLimits,
  ): Promise<Opened> {
    const name = new TextEncoder().encode(path);
    const [members, bytes] = [BigInt(limits.members), BigInt(limits.bytes)];
    return Reader.#open(
      core,
      left,
      (out, token) =>
        core.symbols.guestd_tree_open(name, name.length, members, bytes, out, out.length, token),
    );
  }

  /** The size that the file claims to have, in bytes; 0 for a window and a tree. */
  get size(): number {
    const size = new BigUint64Array(1);
    const out = new Uint8Array(size.buffer);
    checked("ask for a size", this.#core.symbols.guestd_read_size(this.#handle, out, out.length));
    return Number(size[0]);
  }

  /** The next bytes; fewer than {@link Reader.chunkBytes} are the last. Throws `TransferError`. */
  async next(): Promise<Uint8Array<ArrayBuffer>> {
    const out = new Uint8Array(this.chunkBytes);
    const { symbols } = this.#core;
    const filled = await transfer(
      this.#core,
      (token) => symbols.guestd_read_next(this.#handle, out, out.length, token),
    );
    return out.subarray(0, filled);
  }

  /** Lets go of what is open and of what was asked for; what is under way ends soon. */
  [Symbol.dispose](): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#core.symbols.guestd_read_close(this.#handle);
  }

  static async #open(
    core: Core,
    left: AbortSignal,
    start: (out: Uint8Array<ArrayBuffer>, token: number) => number,
  ): Promise<Opened> {
    const out = new Uint8Array(FIRST_BYTES);
    let handle = 0;
    const opened = transfer(core, (token) => handle = start(out, token));
    const reader = new Reader(core, handle);
    // At once: a search for a line, or the measuring of a tree, may take any time.
    const close = (): void => reader[Symbol.dispose]();
    left.addEventListener("abort", close);
    if (left.aborted) close();
    try {
      const filled = await opened;
      left.throwIfAborted();
      return { reader, first: out.subarray(0, filled), ended: filled < FIRST_BYTES };
    } catch (error) {
      close();
      if (!left.aborted) throw error;
      throw new TransferError(TransferStatus.cancelled, "Cannot read: nobody wants it any more");
    } finally {
      left.removeEventListener("abort", close);
    }
  }
}
