import { type Transfer, TransferError, TransferStatus } from "../native/transfer.ts";
import type { TransferLine } from "./transfer_line.ts";
import type { Stop } from "./transfers.ts";

/** What opening reads: one byte more than what is sent with its length if it is all. */
const FIRST_BYTES = 256 * 1024 + 1;
/** What one reading gives at most, in bytes. */
const CHUNK_BYTES = 120 * 1024;
/** How many chunks are read ahead: by the time one is asked for, small files have been packed for several. */
const AHEAD = 4;

/** What was opened, on its way to the client. */
export interface Download {
  /** How many bytes there are; undefined where only the end will tell. */
  readonly length: number | undefined;
  /** The bytes. */
  readonly body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
}

/** Waits until a download is open, and stops it when `stop` says so. Throws `TransferError`; then nothing is left open. */
export async function openDownload(
  transfer: Transfer,
  stop: Stop,
  line: TransferLine,
): Promise<Download> {
  const end = (): void => {
    stop[Symbol.dispose]();
    transfer.close();
  };
  const stopped = (): void => {
    end();
    line.tell("info", "a transfer was stopped", { reason: stop.signal.reason.message });
  };
  stop.signal.addEventListener("abort", stopped);
  if (stop.signal.aborted) stopped();
  try {
    const first = new Uint8Array(FIRST_BYTES);
    const opened = Promise.all([transfer.begun, transfer.read(first)]);
    const [size, filled] = await stop.race(opened);
    if (filled < FIRST_BYTES) {
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
      body: new ReadableStream(new Source(transfer, stop, first, length, line), {
        highWaterMark: 0,
      }),
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
  readonly #transfer: Transfer;
  readonly #stop: Stop;
  readonly #ahead: Promise<Uint8Array<ArrayBuffer>>[] = [];
  readonly #length: number | undefined;
  readonly #line: TransferLine;
  #left: number;
  #given: ArrayBuffer | undefined;
  #first: Uint8Array<ArrayBuffer> | undefined;

  constructor(
    transfer: Transfer,
    stop: Stop,
    first: Uint8Array<ArrayBuffer>,
    length: number | undefined,
    line: TransferLine,
  ) {
    this.#transfer = transfer;
    this.#stop = stop;
    this.#first = first;
    this.#length = length;
    this.#left = length ?? Infinity;
    this.#line = line;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const { signal } = this.#stop;
    signal.addEventListener("abort", () => controller.error(signal.reason));
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    // Who asks for more has handed the last chunk on to the runtime, which holds its bytes by itself: let go of ours now,
    // or tens of megabytes wait for a collection.
    this.#given?.transfer(0);
    try {
      const [chunk, room] = await this.#next();
      if (this.#stop.signal.aborted) return;
      const piece = chunk.length > this.#left ? chunk.subarray(0, this.#left) : chunk;
      this.#left -= piece.length;
      this.#line.bytes += piece.length;
      this.#given = piece.buffer;
      if (piece.length > 0) controller.enqueue(piece);
      if (chunk.length === room && this.#left > 0) return this.#readAhead();
      if (this.#length !== undefined && this.#left > 0) {
        const reason = "Cannot send the rest: the file became shorter";
        this.#line.tell("info", "a download was cut", { reason });
        throw new Error(reason);
      }
      this.#line.tell("info", "transfer done");
      this.cancel();
      controller.close();
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      if (error instanceof TransferError && error.status !== TransferStatus.cancelled) {
        this.#line.tell("warn", "a download failed", { reason: error.message });
      }
      this.cancel();
      controller.error(error);
    }
  }

  cancel(): void {
    this.#line.tell("info", "a transfer was stopped");
    this.#stop[Symbol.dispose]();
    this.#transfer.close();
  }

  /** The next chunk, and how much it had room for. */
  async #next(): Promise<readonly [chunk: Uint8Array<ArrayBuffer>, room: number]> {
    const first = this.#first;
    this.#first = undefined;
    if (first !== undefined) return [first, first.length];
    const chunk = await (this.#ahead.shift() ?? this.#read());
    return [chunk, CHUNK_BYTES];
  }

  #readAhead(): void {
    const wanted = Math.min(AHEAD, Math.ceil(this.#left / CHUNK_BYTES));
    while (this.#ahead.length < wanted) {
      const next = this.#read();
      // It is looked at when the client wants it; until then a failure is nobody's.
      next.catch(() => {});
      this.#ahead.push(next);
    }
  }

  async #read(): Promise<Uint8Array<ArrayBuffer>> {
    const chunk = new Uint8Array(CHUNK_BYTES);
    return chunk.subarray(0, await this.#transfer.read(chunk));
  }
}
