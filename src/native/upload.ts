import type { Core } from "./core.ts";
import type { TreeLimits } from "./reader.ts";
import { transfer, TransferError, TransferStatus } from "./transfer.ts";

/** Where bodies go that cannot lie beside their target, and what must stay free. */
export interface UploadSettings {
  /** Directory for spooled bodies; the system's own for temporary files is the next choice. */
  readonly spoolDir: string;
  /** Bytes that must stay available on a file system that is written; 0 for no guard. */
  readonly reserveBytes: number;
}

/**
 * A file or an archive on its way to disk.
 *
 * Invariant: until `finish` has ended well nothing is seen of it, and `abort` leaves nothing.
 */
export class Upload {
  readonly #core: Core;
  readonly #handle: number;
  #aborted: Promise<void> | undefined;

  private constructor(core: Core, handle: number) {
    this.#core = core;
    this.#handle = handle;
  }

  /** Begins to write a file, with `mode` unless undefined, unless `left` comes before. Throws `TransferError`. */
  static file(
    core: Core,
    path: string,
    left: AbortSignal,
    mode: number | undefined,
    { spoolDir, reserveBytes }: UploadSettings,
  ): Promise<Upload> {
    const [name, spool] = [new TextEncoder().encode(path), new TextEncoder().encode(spoolDir)];
    return Upload.#open(core, left, (token) =>
      core.symbols.guestd_upload_file(
        name,
        name.length,
        mode ?? -1,
        BigInt(reserveBytes),
        spool,
        spool.length,
        token,
      ));
  }

  /** Begins to spool an archive for the directory `root`, as {@link Upload.file}. */
  static tree(
    core: Core,
    root: string,
    left: AbortSignal,
    { spoolDir, reserveBytes }: UploadSettings,
  ): Promise<Upload> {
    const [name, spool] = [new TextEncoder().encode(root), new TextEncoder().encode(spoolDir)];
    return Upload.#open(core, left, (token) =>
      core.symbols.guestd_upload_tree(
        name,
        name.length,
        BigInt(reserveBytes),
        spool,
        spool.length,
        token,
      ));
  }

  /**
   * Writes bytes and gives them back when they are not needed any more; until then nobody may
   * change them. Several may be under way: they are written in the order of the calls. Throws
   * `TransferError`.
   */
  async write(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
    const { symbols } = this.#core;
    await transfer(
      this.#core,
      (token) => symbols.guestd_upload_write(this.#handle, bytes, bytes.length, token),
    );
    return bytes;
  }

  /**
   * Puts the file in its place, or checks the archive against `limits` and extracts it. Throws
   * `TransferError`, and then leaves nothing.
   */
  async finish(limits: TreeLimits = { members: 0, bytes: 0 }): Promise<void> {
    const { symbols } = this.#core;
    const [members, bytes] = [BigInt(limits.members), BigInt(limits.bytes)];
    await transfer(
      this.#core,
      (token) => symbols.guestd_upload_finish(this.#handle, members, bytes, token),
    );
  }

  /**
   * Gives it up: what has not begun is dropped at once, an extraction stops between two members. Ends when nothing
   * more is done. Never throws.
   */
  abort(): Promise<void> {
    return this.#aborted ??= this.#abort();
  }

  async #abort(): Promise<void> {
    const { symbols } = this.#core;
    await this.#core.operation((token) => symbols.guestd_upload_abort(this.#handle, token));
  }

  static async #open(
    core: Core,
    left: AbortSignal,
    start: (token: number) => number,
  ): Promise<Upload> {
    let handle = 0;
    const opened = transfer(core, (token) => handle = start(token));
    const upload = new Upload(core, handle);
    const abort = (): void => void upload.abort();
    left.addEventListener("abort", abort);
    if (left.aborted) abort();
    try {
      await opened;
      left.throwIfAborted();
      return upload;
    } catch (error) {
      await upload.abort();
      if (!left.aborted) throw error;
      throw new TransferError(
        TransferStatus.cancelled,
        "Cannot write: nobody waits for it any more",
      );
    } finally {
      left.removeEventListener("abort", abort);
    }
  }
}
