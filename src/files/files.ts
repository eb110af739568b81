import type { Limits } from "../contract/limits.ts";
import { PlainRefusal } from "../contract/refusal.ts";
import type { Log } from "../log.ts";
import type { Core } from "../native/core.ts";
import {
  ENOTDIR,
  type LineRange,
  Transfer,
  TransferError,
  TransferStatus,
  type TreeLimits,
  type UploadSettings,
} from "../native/transfer.ts";
import { SETTINGS } from "../settings.ts";
import { type Download, openDownload } from "./download.ts";
import { FILE_READ, FILE_WRITE, refusing, type Statuses, TAR_READ, TAR_WRITE } from "./refusal.ts";
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
  readonly #transfers = new Transfers();
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
    const { core } = this.#options;
    return this.#download(client, FILE_READ, () => Transfer.readFile(core, path, lines));
  }

  /** Packs a directory. */
  readTree(path: string, client: AbortSignal): Promise<Download> {
    const { core } = this.#options;
    return this.#download(
      client,
      TAR_READ,
      () => Transfer.readTree(core, path, this.#treeLimits),
    );
  }

  /** Writes what `pour` hands over to a file, with `mode` unless undefined. */
  writeFile(
    path: string,
    mode: number | undefined,
    client: AbortSignal,
    pour: Pour,
  ): Promise<void> {
    const { core } = this.#options;
    return this.#upload(
      client,
      FILE_WRITE,
      () => Transfer.writeFile(core, path, mode, this.#options),
      pour,
    );
  }

  /** Extracts the archive that `pour` hands over into the directory `root`. */
  async writeTree(root: string, client: AbortSignal, pour: Pour): Promise<void> {
    const { core } = this.#options;
    let isGzip: boolean | undefined;
    const noting: Pour = (sink, stopped) =>
      pour({
        write(bytes) {
          isGzip ??= GZIP.every((byte, at) => bytes[at] === byte);
          return sink.write(bytes);
        },
      }, stopped);
    try {
      await this.#upload(
        client,
        TAR_WRITE,
        () => Transfer.writeTree(core, root, this.#options),
        noting,
      );
    } catch (error) {
      // Only then: a tar may begin so, too.
      if (!isGzip || !(error instanceof PlainRefusal) || error.status !== 400) throw error;
      throw new PlainRefusal(400, "Cannot read the archive: it is gzip, send it uncompressed");
    }
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
    this.#transfers.close();
  }

  #download(client: AbortSignal, statuses: Statuses, open: () => Transfer): Promise<Download> {
    const { log } = this.#options;
    return refusing(statuses, log, () => openDownload(open(), this.#transfers.begin(client), log));
  }

  #upload(
    client: AbortSignal,
    statuses: Statuses,
    open: () => Transfer,
    pour: Pour,
  ): Promise<void> {
    return refusing(statuses, this.#options.log, async () => {
      using stop = this.#transfers.begin(client);
      stop.signal.throwIfAborted();
      const transfer = open();
      stop.signal.addEventListener("abort", () => void transfer.close());
      try {
        await stop.race(transfer.begun.then(() => pour(transfer, stop.signal)));
        stop.outliveClient();
        await transfer.finish(this.#treeLimits);
      } finally {
        const closed = transfer.close();
        // Nobody waits for a disk that hangs.
        if (!client.aborted) await closed;
      }
    });
  }
}
