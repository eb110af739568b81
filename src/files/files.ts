import type { Limits } from "../contract/limits.ts";
import type { Log } from "../log.ts";
import type { Core } from "../native/core.ts";
import { ENOTDIR } from "../native/errno.ts";
import {
  type LineRange,
  Transfer,
  TransferError,
  TransferStatus,
  type TreeLimits,
  type UploadSettings,
} from "../native/transfer.ts";
import { SETTINGS } from "../settings.ts";
import { type Download, openDownload, readAhead } from "./download.ts";
import { FILE_READ, FILE_WRITE, refusing, type Statuses, TAR_READ, TAR_WRITE } from "./refusal.ts";
import { type TransferKind, TransferLine } from "./transfer_line.ts";
import { Stop } from "./transfers.ts";

/** What the room of files needs. */
export interface FilesOptions extends UploadSettings {
  /** The opened core. */
  readonly core: Core;
  /** Limits in force. */
  readonly limits: Limits;
  /** How long a client may take nothing of a download, in milliseconds. */
  readonly idleMs: number;
  /** Where failures of the disk are logged. */
  readonly log: Log;
}

/** What a gzip file begins with. */
const GZIP = [0x1f, 0x8b];

/** What takes the bytes of a request's body. */
export interface Sink {
  /** Takes bytes, and gives them back when they may be used again. Several calls may be under way. */
  write(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
}

/** Hands a body to a sink, until `stopped` is aborted: then it throws the reason. */
export type Pour = (sink: Sink, stopped: AbortSignal) => Promise<void>;

/**
 * Files and trees, in and out. Every method throws a `PlainRefusal` for what it cannot do. `client` is aborted when the
 * client leaves.
 */
export class Files {
  readonly #ending = new AbortController();
  readonly #ahead = readAhead();
  readonly #options: FilesOptions;
  readonly #treeLimits: TreeLimits;

  /** Makes the room. */
  constructor(options: FilesOptions) {
    const { max_tar_members: members, max_tar_bytes: bytes } = options.limits;
    this.#options = options;
    this.#treeLimits = { members, bytes };
  }

  /** Reads a file, whole or a window of its lines. */
  readFile(path: string, client: AbortSignal, lines?: LineRange): Promise<Download> {
    const open = (): Transfer => Transfer.readFile(this.#options.core, path, lines);
    return this.#download(client, FILE_READ, this.#line("read file", path), open);
  }

  /** Packs a directory. */
  readTree(path: string, client: AbortSignal): Promise<Download> {
    const open = (): Transfer => Transfer.readTree(this.#options.core, path, this.#treeLimits);
    return this.#download(client, TAR_READ, this.#line("read tree", path), open);
  }

  /** Writes what `pour` hands over to a file, with `mode` unless undefined. */
  writeFile(
    path: string,
    mode: number | undefined,
    client: AbortSignal,
    pour: Pour,
  ): Promise<void> {
    const open = (): Transfer => Transfer.writeFile(this.#options.core, path, mode, this.#options);
    return this.#upload(client, FILE_WRITE, this.#line("write file", path), open, pour);
  }

  /** Extracts the archive that `pour` hands over into the directory `root`. */
  writeTree(root: string, client: AbortSignal, pour: Pour): Promise<void> {
    const open = (): Transfer => Transfer.writeTree(this.#options.core, root, this.#options);
    return this.#upload(client, TAR_WRITE, this.#line("write tree", root), open, pour);
  }

  /** Warns if the spool directory is not there. */
  async checkSpool(): Promise<void> {
    const { core, spoolDir, log } = this.#options;
    const probe = Transfer.readFile(core, spoolDir);
    try {
      await probe.begun;
      throw new TransferError(ENOTDIR, `Cannot use ${spoolDir}: it is no directory`);
    } catch (error) {
      // What a directory says to whoever wants to read it as a file.
      if (!(error instanceof TransferError) || error.status === TransferStatus.isDirectory) return;
      const variable = SETTINGS.spoolDir.variable;
      log.warn("the spool directory cannot be used", { variable, cause: error.message });
    } finally {
      await probe.close();
    }
  }

  /** Stops what is under way: downloads are cut, uploads leave nothing. */
  close(): void {
    this.#ending.abort();
  }

  #line(kind: TransferKind, path: string): TransferLine {
    return new TransferLine(this.#options.log, kind, path);
  }

  #download(
    client: AbortSignal,
    statuses: Statuses,
    line: TransferLine,
    open: () => Transfer,
  ): Promise<Download> {
    return refusing(
      statuses,
      line,
      () => {
        const transfer = open();
        const stop = new Stop(client, this.#ending.signal);
        const { idleMs } = this.#options;
        return openDownload({ transfer, stop, line, sizes: this.#ahead.take(), idleMs });
      },
    );
  }

  #upload(
    client: AbortSignal,
    statuses: Statuses,
    line: TransferLine,
    open: () => Transfer,
    pour: Pour,
  ): Promise<void> {
    return refusing(statuses, line, async () => {
      using stop = new Stop(client, this.#ending.signal);
      stop.signal.throwIfAborted();
      const transfer = open();
      stop.signal.addEventListener("abort", () => void transfer.close());
      let isGzip = false;
      const counted: Sink = {
        write(bytes): Promise<Uint8Array<ArrayBuffer>> {
          if (line.bytes === 0) isGzip = GZIP.every((byte, at) => bytes[at] === byte);
          line.bytes += bytes.length;
          return transfer.write(bytes);
        },
      };
      try {
        await stop.race(transfer.begun.then(() => pour(counted, stop.signal)));
        stop.outliveClient();
        await transfer.finish(this.#treeLimits);
        line.tell("info", "transfer done");
      } catch (error) {
        // A tar that is fine may begin so, too.
        throw isGzip ? explained(error) : error;
      } finally {
        const closed = transfer.close();
        // Nobody waits for a disk that hangs.
        if (!client.aborted) await closed;
      }
    });
  }
}

/** Says of a refused archive that it is gzip. */
function explained(error: unknown): unknown {
  const { refused } = TransferStatus;
  if (!(error instanceof TransferError) || error.status !== refused) return error;
  return new TransferError(refused, "Cannot read the archive: it is gzip, send it uncompressed");
}
