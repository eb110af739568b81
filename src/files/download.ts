import { PlainRefusal } from "../contract/refusal.ts";
import type { Log } from "../log.ts";
import type { CallerEnds } from "../native/caller.ts";
import type { Opened } from "../native/reader.ts";
import { EAGAIN, TransferError, TransferStatus } from "../native/transfer.ts";
import type { Transfers } from "./transfers.ts";

/** How many chunks are read ahead: by the time one is asked for, small files have been packed for several. */
const AHEAD = 4;

/** What was opened, on its way to the caller: by one of the two ways. */
export interface Download {
  /** How many bytes there are; undefined where only the end will tell. */
  readonly length: number | undefined;
  /** The bytes, for Deno's server to send. */
  body(): Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
  /**
   * Sends `head` and the bytes on the caller's connection, and ends that. False where it cannot be done, or is not worth
   * it: then nothing was sent. Throws a `PlainRefusal` when it failed: the caller was reset then, or, if it was stopped
   * before the connection was taken, has nothing yet.
   */
  send(caller: CallerEnds, head: Uint8Array<ArrayBuffer>): Promise<boolean>;
}

/** What a download needs. */
export interface DownloadOptions {
  /** Transfers under way. */
  readonly transfers: Transfers;
  /** Aborted when the caller leaves. */
  readonly left: AbortSignal;
  /** Whether what has no length may end with its connection; else only Deno's server can send it, in chunks. */
  readonly endless: boolean;
  /** Where failures are logged. */
  readonly log: Log;
}

/** The way of what was opened. */
export function download(opened: Opened, options: DownloadOptions): Download {
  const { reader, first, ended } = opened;
  if (ended) {
    reader[Symbol.dispose]();
    return { length: first.length, body: () => first, send: () => Promise.resolve(false) };
  }
  // A size that has been passed already was a lie, as those of /proc and /sys are.
  const claimed = reader.size;
  const length = claimed >= first.length ? claimed : undefined;
  return {
    length,
    body: () => stream(opened, length, options),
    send: async (caller, head) =>
      (length !== undefined || options.endless) &&
      await send(opened, length, caller, head, options),
  };
}

async function send(
  { reader, first }: Opened,
  length: number | undefined,
  caller: CallerEnds,
  head: Uint8Array<ArrayBuffer>,
  { transfers, left, log }: DownloadOptions,
): Promise<boolean> {
  let stopped = false;
  const stop = (): void => {
    stopped = true;
    reader[Symbol.dispose]();
  };
  transfers.add(stop);
  left.addEventListener("abort", stop);
  if (left.aborted) stop();
  try {
    const behind = length === undefined ? undefined : length - first.length;
    const sent = !stopped && await reader.send(caller, head, first, behind);
    if (!sent && !stopped) return false;
    reader[Symbol.dispose]();
    if (sent) return true;
  } catch (error) {
    reader[Symbol.dispose]();
    const status = error instanceof TransferError ? error.status : undefined;
    if (!stopped || status !== EAGAIN) logFailure(log, error);
  } finally {
    left.removeEventListener("abort", stop);
    transfers.remove(stop);
  }
  throw new PlainRefusal(500, "Cannot send the download: it was given up");
}

function logFailure(log: Log, error: unknown): void {
  const status = error instanceof TransferError ? error.status : undefined;
  if (status === TransferStatus.lost || status === TransferStatus.cancelled) return;
  const reason = error instanceof Error ? error.message : "";
  if (status === TransferStatus.shorter) log.info("a download was cut", { reason });
  else log.warn("a download failed", { reason });
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
    const failure = new TransferError(
      TransferStatus.shorter,
      "Cannot send the rest: the file became shorter",
    );
    logFailure(log, failure);
    controller.error(failure);
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
