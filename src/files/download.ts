import type { Log } from "../log.ts";
import type { Opened } from "../native/reader.ts";
import { TransferError, TransferStatus } from "../native/transfer.ts";
import type { Transfers } from "./transfers.ts";

/** How many chunks are read ahead: by the time one is asked for, small files have been packed for several. */
const AHEAD = 4;

/** What was opened, on its way to the client. */
export interface Download {
  /** How many bytes there are; undefined where only the end will tell. */
  readonly length: number | undefined;
  /** The bytes, for Deno's server to send. */
  body(): Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
}

/** What a download needs. */
export interface DownloadOptions {
  /** Transfers under way. */
  readonly transfers: Transfers;
  /** Where failures are logged. */
  readonly log: Log;
}

/** The way of what was opened. */
export function download(opened: Opened, options: DownloadOptions): Download {
  const { reader, first, ended } = opened;
  if (ended) {
    reader[Symbol.dispose]();
    return { length: first.length, body: () => first };
  }
  // A size that has been passed already was a lie, as those of /proc and /sys are.
  const claimed = reader.size;
  const length = claimed >= first.length ? claimed : undefined;
  return { length, body: () => stream(opened, length, options) };
}

function logFailure(log: Log, error: unknown): void {
  if (error instanceof TransferError && error.status === TransferStatus.cancelled) return;
  log.warn("a download failed", { reason: error instanceof Error ? error.message : "" });
}

/**
 * The body of what was opened. It is read a few chunks ahead of the peer, so that the disk and the
 * network work at the same time and a slow peer costs no more than that.
 */
function stream(
  { reader, first }: Opened,
  length: number | undefined,
  { transfers, log }: DownloadOptions,
): ReadableStream<Uint8Array> {
  let left = length ?? Infinity;
  let ended = false;
  const ahead: Promise<Uint8Array<ArrayBuffer>>[] = [];
  let given: ArrayBuffer | undefined;
  let stop: () => void = () => {};

  function end(): void {
    ended = true;
    reader[Symbol.dispose]();
    transfers.remove(stop);
  }

  function give(
    controller: ReadableStreamDefaultController<Uint8Array>,
    chunk: Uint8Array<ArrayBuffer>,
  ): void {
    const last = (chunk !== first && chunk.length < reader.chunkBytes) || chunk.length >= left;
    const piece = chunk.length > left ? chunk.subarray(0, left) : chunk;
    left -= piece.length;
    if (piece.length > 0) controller.enqueue(piece);
    given = piece.buffer;
    if (!last) return;
    end();
    if (length === undefined || left === 0) return controller.close();
    const reason = "Cannot send the rest: the file became shorter";
    log.info("a download was cut", { reason });
    controller.error(new Error(reason));
  }

  /** Asks for what comes behind a chunk that is not the last. */
  function readAhead(chunk: Uint8Array<ArrayBuffer>): void {
    const wanted = Math.min(AHEAD, Math.ceil((left - chunk.length) / reader.chunkBytes));
    while (ahead.length < wanted) {
      const next = reader.next();
      // It is looked at when the peer wants it; until then a failure is nobody's.
      next.catch(() => {});
      ahead.push(next);
    }
  }

  return new ReadableStream<Uint8Array>({
    start(controller): void {
      stop = () => {
        end();
        controller.error(new Error("Cannot send the rest: the daemon ends"));
      };
      transfers.add(stop);
    },
    async pull(controller): Promise<void> {
      // Who asks for more has handed the last chunk on to the runtime, which holds its bytes by
      // itself: let go of ours now, or tens of megabytes wait for a collection.
      given?.transfer(0);
      try {
        const chunk = await ahead.shift() ?? first;
        if (ended) return;
        if (chunk === first || chunk.length === reader.chunkBytes) readAhead(chunk);
        give(controller, chunk);
      } catch (error) {
        if (ended) return;
        end();
        logFailure(log, error);
        controller.error(error);
      }
    },
    cancel: end,
  }, { highWaterMark: 0 });
}
