import { type Transfer, TransferError, TransferStatus } from "../native/transfer.ts";
import type { TransferLine } from "./transfer_line.ts";
import { Shares, type Stop } from "./transfers.ts";

/** How a download is read. */
export interface Sizes {
  /** What opening reads, in bytes: one more than what is sent with its length if it is all. */
  readonly first: number;
  /** What one reading gives at most, in bytes. */
  readonly chunk: number;
  /** How many chunks are read ahead: by the time one is asked for, small files have been packed for several. */
  readonly ahead: number;
}

/** How far ahead downloads are read: a few far, and little of those beside them, for hundreds may stand still. */
export function readAhead(): Shares<Sizes> {
  const far = { first: 256 * 1024 + 1, chunk: 120 * 1024, ahead: 4 };
  return new Shares(8, far, { first: 32 * 1024 + 1, chunk: 32 * 1024, ahead: 1 });
}

/** What was opened, on its way to the client. */
export interface Download {
  /** How many bytes there are; undefined where only the end will tell. */
  readonly length: number | undefined;
  /** The bytes. */
  readonly body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
}

/** What a download is made of. */
export interface DownloadParts {
  /** What reads it. */
  readonly transfer: Transfer;
  /** What stops it. */
  readonly stop: Stop;
  /** Its line in the log. */
  readonly line: TransferLine;
  /** How it is read, until it ends. */
  readonly sizes: Sizes & Disposable;
  /** How long its client may take nothing, in milliseconds. */
  readonly idleMs: number;
}

/** Waits until a download is open, and stops it when `stop` says so. Throws `TransferError`; then nothing is left open. */
export async function openDownload(parts: DownloadParts): Promise<Download> {
  const { transfer, stop, line, sizes } = parts;
  const end = (): void => {
    stop[Symbol.dispose]();
    sizes[Symbol.dispose]();
    transfer.close();
  };
  const stopped = (): void => {
    end();
    line.tell("info", "a transfer was stopped", { reason: stop.signal.reason.message });
  };
  stop.signal.addEventListener("abort", stopped);
  if (stop.signal.aborted) stopped();
  try {
    const first = new Uint8Array(sizes.first);
    const opened = Promise.all([transfer.begun, transfer.read(first)]);
    const [size, filled] = await stop.race(opened);
    if (filled < sizes.first) {
      end();
      const body = first.slice(0, filled);
      // Freed now, and not when it is collected.
      first.buffer.transfer(0);
      line.bytes = filled;
      line.tell("info", "transfer done");
      return { length: filled, body };
    }
    // A size that has been passed already was a lie, as those of /proc and /sys are.
    const length = size >= filled ? size : undefined;
    return {
      length,
      body: new ReadableStream(new Source(parts, first, length), { highWaterMark: 0 }),
    };
  } catch (error) {
    end();
    throw error;
  }
}

/**
 * A download as the source of a stream. It is read a few chunks ahead of the client, so that the disk and the network work
 * at the same time and a slow client costs no more than that.
 *
 * Invariant: `#left` bytes are still to be given, of which those in `#ahead` were asked for; `#given` is what the stream
 * was given last.
 */
class Source implements UnderlyingDefaultSource<Uint8Array> {
  readonly #parts: DownloadParts;
  readonly #length: number | undefined;
  readonly #ahead: Promise<Uint8Array<ArrayBuffer>>[] = [];
  #idle: ReturnType<typeof setTimeout> | undefined;
  #pulled = false;
  #left: number;
  #given: ArrayBuffer | undefined;
  #first: Uint8Array<ArrayBuffer> | undefined;

  constructor(
    parts: DownloadParts,
    first: Uint8Array<ArrayBuffer>,
    length: number | undefined,
  ) {
    this.#parts = parts;
    this.#first = first;
    this.#length = length;
    this.#left = length ?? Infinity;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const { signal } = this.#parts.stop;
    signal.addEventListener("abort", () => {
      this.#end();
      controller.error(signal.reason);
    });
    this.#watch(controller);
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    // Who asks for more has handed the last chunk on to the runtime, which holds its bytes by itself: let go of ours now,
    // or tens of megabytes wait for a collection.
    this.#given?.transfer(0);
    this.#pulled = true;
    try {
      const [chunk, room] = await this.#next();
      if (this.#parts.stop.signal.aborted) return;
      const piece = chunk.length > this.#left ? chunk.subarray(0, this.#left) : chunk;
      this.#left -= piece.length;
      this.#parts.line.bytes += piece.length;
      this.#given = piece.buffer;
      if (piece.length > 0) controller.enqueue(piece);
      if (chunk.length === room && this.#left > 0) return this.#readAhead();
      if (this.#length !== undefined && this.#left > 0) {
        const reason = "Cannot send the rest: the file became shorter";
        this.#parts.line.tell("info", "a download was cut", { reason });
        throw new Error(reason);
      }
      this.#parts.line.tell("info", "transfer done");
      this.cancel();
      controller.close();
    } catch (error) {
      if (this.#parts.stop.signal.aborted) return;
      if (error instanceof TransferError && error.status !== TransferStatus.cancelled) {
        this.#parts.line.tell("warn", "a download failed", { reason: error.message });
      }
      this.cancel();
      controller.error(error);
    }
  }

  cancel(): void {
    this.#parts.line.tell("info", "a transfer was stopped");
    this.#end();
  }

  #end(): void {
    clearTimeout(this.#idle);
    this.#parts.stop[Symbol.dispose]();
    this.#parts.sizes[Symbol.dispose]();
    this.#parts.transfer.close();
  }

  /** Ends the download of a client that takes nothing: it holds a thread, a descriptor and memory. */
  #watch(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#idle = setTimeout(() => {
      if (this.#pulled) return this.#watch(controller);
      const reason = `Cannot send the rest: the client took nothing for ${
        this.#parts.idleMs / 1000
      } s`;
      this.#parts.line.tell("info", "a download was cut", { reason });
      this.#end();
      controller.error(new Error(reason));
    }, this.#parts.idleMs);
    this.#pulled = false;
    // A daemon that ends does not wait for it.
    Deno.unrefTimer(this.#idle);
  }

  /** The next chunk, and how much it had room for. */
  async #next(): Promise<readonly [chunk: Uint8Array<ArrayBuffer>, room: number]> {
    const first = this.#first;
    this.#first = undefined;
    if (first !== undefined) return [first, first.length];
    const chunk = await (this.#ahead.shift() ?? this.#read());
    return [chunk, this.#parts.sizes.chunk];
  }

  #readAhead(): void {
    const { ahead, chunk } = this.#parts.sizes;
    const wanted = Math.min(ahead, Math.ceil(this.#left / chunk));
    while (this.#ahead.length < wanted) {
      const next = this.#read();
      // It is looked at when the client wants it; until then a failure is nobody's.
      next.catch(() => {});
      this.#ahead.push(next);
    }
  }

  async #read(): Promise<Uint8Array<ArrayBuffer>> {
    const chunk = new Uint8Array(this.#parts.sizes.chunk);
    return chunk.subarray(0, await this.#parts.transfer.read(chunk));
  }
}
