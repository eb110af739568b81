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

  /** Reads a file, whole or a window of its lines. */
  async readFile(path: string, lines?: LineRange): Promise<Download> {
    const { core, log } = this.#options;
    const opened = await refusingTransfers(FILE_READ, log, Reader.openFile(core, path, lines));
    return download(opened, this.transfers, log);
  }

  /** Packs a directory. */
  async readTree(path: string): Promise<Download> {
    const { core, log } = this.#options;
    const opening = Reader.openTree(core, path, this.#treeLimits);
    return download(await refusingTransfers(TAR_READ, log, opening), this.transfers, log);
  }

  /** Begins to write a file, with `mode` unless undefined. */
  async writeFile(path: string, mode: number | undefined): Promise<Sink> {
    const opening = Upload.file(this.#options.core, path, mode, this.#options);
    return this.#sink(FILE_WRITE, await refusingTransfers(FILE_WRITE, this.#options.log, opening));
  }

  /** Begins to spool an archive for the directory `root`. */
  async writeTree(root: string): Promise<Sink> {
    const opening = Upload.tree(this.#options.core, root, this.#options);
    return this.#sink(TAR_WRITE, await refusingTransfers(TAR_WRITE, this.#options.log, opening));
  }

  #sink(statuses: Statuses, upload: Upload): Sink {
    const { log } = this.#options;
    return {
      write: (bytes) => refusingTransfers(statuses, log, upload.write(bytes)),
      finish: () => refusingTransfers(statuses, log, upload.finish(this.#treeLimits)),
      abort: () => upload.abort(),
    };
  }
}
