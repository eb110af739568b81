import type { Limits } from "../contract/limits.ts";
import type { Log } from "../log.ts";
import type { Core } from "../native/core.ts";
import { type LineRange, Reader, type TreeLimits } from "../native/reader.ts";
import { Upload, type UploadSettings } from "../native/upload.ts";
import { type Download, download } from "./download.ts";
import {
  FILE_READ,
  FILE_WRITE,
  refusingTransfers,
  type Statuses,
  TAR_READ,
  TAR_WRITE,
} from "./refusal.ts";
import { Transfers } from "./transfers.ts";

/** What the room of files needs. */
export interface FilesOptions extends UploadSettings {
  /** The opened core. */
  readonly core: Core;
  /** Limits in force. */
  readonly limits: Limits;
  /** Where failures of the disk are logged. */
  readonly log: Log;
}

/** Something that takes the bytes of a request's body. */
export interface Sink {
  /** Writes bytes; gives them back when they may be used again. Throws a `PlainRefusal`. */
  write(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
  /** All bytes are there: puts them in their place. Throws a `PlainRefusal`, and leaves nothing. */
  finish(): Promise<void>;
  /** Gives up; ends when nothing is left. */
  abort(): Promise<void>;
}

/** Files and trees, in and out. Every method throws a `PlainRefusal` for what it cannot do. */
export class Files {
  /** Transfers under way. */
  readonly transfers: Transfers = new Transfers();
  readonly #options: FilesOptions;
  readonly #treeLimits: TreeLimits;

  /** Makes the room. */
  constructor(options: FilesOptions) {
    const { max_tar_members: members, max_tar_bytes: bytes } = options.limits;
    this.#options = options;
    this.#treeLimits = { members, bytes };
  }

  /** Reads a file, whole or a window of its lines. `left` is aborted when the caller leaves. */
  async readFile(path: string, left: AbortSignal, lines?: LineRange): Promise<Download> {
    const { core, log } = this.#options;
    const opened = await this.#opening(
      left,
      FILE_READ,
      (stop) => Reader.openFile(core, path, stop, lines),
    );
    return download(opened, { transfers: this.transfers, log });
  }

  /** Packs a directory. `left` as in {@link Files.readFile}. */
  async readTree(path: string, left: AbortSignal): Promise<Download> {
    const { core, log } = this.#options;
    const opened = await this.#opening(
      left,
      TAR_READ,
      (stop) => Reader.openTree(core, path, stop, this.#treeLimits),
    );
    return download(opened, { transfers: this.transfers, log });
  }

  /** Begins to write a file, with `mode` unless undefined. `left` as in {@link Files.readFile}. */
  async writeFile(
    path: string,
    left: AbortSignal,
    mode: number | undefined,
  ): Promise<Sink> {
    const { core } = this.#options;
    const upload = await this.#opening(
      left,
      FILE_WRITE,
      (stop) => Upload.file(core, path, stop, mode, this.#options),
    );
    return this.#sink(FILE_WRITE, upload, left);
  }

  /** Begins to spool an archive for the directory `root`. `left` as in {@link Files.readFile}. */
  async writeTree(root: string, left: AbortSignal): Promise<Sink> {
    const { core } = this.#options;
    const upload = await this.#opening(
      left,
      TAR_WRITE,
      (stop) => Upload.tree(core, root, stop, this.#options),
    );
    return this.#sink(TAR_WRITE, upload, left);
  }

  /** Opens something, unless the caller leaves or the daemon ends before. */
  async #opening<T>(
    left: AbortSignal,
    statuses: Statuses,
    open: (stopped: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const stopping = new AbortController();
    const stop = (): void => stopping.abort();
    left.addEventListener("abort", stop);
    if (left.aborted) stop();
    this.transfers.add(stop);
    try {
      return await refusingTransfers(statuses, this.#options.log, open(stopping.signal));
    } finally {
      left.removeEventListener("abort", stop);
      this.transfers.remove(stop);
    }
  }

  #sink(statuses: Statuses, upload: Upload, left: AbortSignal): Sink {
    const { log } = this.#options;
    const stop = (): void => void upload.abort();
    left.addEventListener("abort", stop);
    if (left.aborted) stop();
    this.transfers.add(stop);
    return {
      write: (bytes) => refusingTransfers(statuses, log, upload.write(bytes)),
      finish: async (): Promise<void> => {
        // Whoever has sent everything may leave: what was begun with all of it is carried out.
        left.removeEventListener("abort", stop);
        try {
          await refusingTransfers(statuses, log, upload.finish(this.#treeLimits));
        } finally {
          this.transfers.remove(stop);
        }
      },
      abort: async (): Promise<void> => {
        left.removeEventListener("abort", stop);
        this.transfers.remove(stop);
        await upload.abort();
      },
    };
  }
}
