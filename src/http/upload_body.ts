import { PlainRefusal } from "../contract/refusal.ts";
import type { Connection, Received } from "../files/files.ts";
import { declaredLength } from "./body.ts";
import { BodyLost } from "./body_lost.ts";

/** How much is collected before it is handed on, in bytes. */
const CHUNK_BYTES = 1024 * 1024;
/**
 * How much of a chunked body is asked for at a time, in bytes. At each reading Deno 2.9 takes as much from the socket
 * as was asked for but gives one of the sender's chunks: what is asked for beyond that piles up in its memory, and is
 * moved at every further reading. Never less either: a reading that is too small for what stands between two chunks is
 * never answered, though more arrives.
 */
const CHUNKED_STEP_BYTES = 4096;
/** What each of many uploads collects, in bytes. */
const SMALL_CHUNK_BYTES = 128 * 1024;

/** The buffers of one upload: one is filled while the others are written. */
export interface Buffers extends Disposable {
  /** How many there are. */
  readonly count: number;
  /** Size of each, in bytes. */
  readonly bytes: number;
}

/**
 * Who collects how much: a few uploads 4 MiB each, which is fastest, and those that come while they are under way
 * 256 KiB each, so that many do not take all memory. None waits for another, for that may be a slow one.
 */
export class BufferShare {
  #large = 0;

  /** Buffers for an upload, which gives them back when it ends. */
  take(): Buffers {
    if (this.#large >= LARGE_UPLOADS) {
      return { count: 2, bytes: SMALL_CHUNK_BYTES, [Symbol.dispose]: () => {} };
    }
    this.#large++;
    return { count: 4, bytes: CHUNK_BYTES, [Symbol.dispose]: () => void this.#large-- };
  }
}

/** How many uploads at a time get large buffers. */
const LARGE_UPLOADS = 4;

/** How much of a body must be left for it to be worth to hand the connection over, in bytes. */
const HANDED_OVER_BYTES = 1024 * 1024;
/**
 * How much is asked for before, in bytes: more than a new connection's window, so that one reading takes all that has
 * come, and no more than what is asked for afterwards: Deno goes on to take that much from the socket.
 */
const FIRST_BYTES = SMALL_CHUNK_BYTES;

/** What takes a body's bytes. */
export interface BodySink {
  /** Takes bytes, and gives them back when they may be used again. */
  write(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
  /** Takes what is left of the body from the connection, if it can. */
  receive(left: number, connection: Connection): Promise<Received>;
  /** There will be no more, and what was taken is worth nothing. */
  abort(): Promise<void>;
}

/** How a body is read. */
export interface BodyReading {
  /** Where it comes from. */
  readonly connection: Connection;
  /** Where its buffers come from. */
  readonly share: BufferShare;
  /** Called with what stops the reading; the body then counts as lost. */
  readonly onStop: (stop: () => void) => void;
}

/** Throws 413 for a body that is declared larger than `maxBytes`. */
export function refuseDeclared(request: Request, maxBytes: number): void {
  if ((declaredLength(request) ?? 0) > maxBytes) throw tooLarge(maxBytes);
}

/**
 * Hands a request's body to `sink`, which may take the rest of a large one from the connection. What comes this way goes
 * through a few buffers: the bytes are copied into them once and the peer waits while all are on their way. Throws 413
 * as soon as there are more than `maxBytes`, {@link BodyLost}, and what `sink` throws; then the sink was aborted and
 * nothing is under way.
 */
export async function pumpBody(
  request: Request,
  maxBytes: number,
  sink: BodySink,
  { connection, share, onStop }: BodyReading,
): Promise<void> {
  if (request.body === null) return;
  const declared = declaredLength(request);
  const chunked = request.headers.has("transfer-encoding");
  const source = chunked
    ? sourceOf(request.body, CHUNKED_STEP_BYTES, CHUNKED_STEP_BYTES)
    : sourceOf(request.body, 1, CHUNK_BYTES);
  onStop(() => source.cancel());
  const writing: Promise<Uint8Array<ArrayBuffer>>[] = [];
  try {
    let received = 0;
    if (!chunked && declared !== undefined) {
      received = await handOver(source, declared, sink, connection);
      if (received === declared) return;
    }
    using buffers = share.take();
    // One byte more than a small body has, so that its end is seen at once.
    const bufferBytes = Math.min(buffers.bytes, (declared ?? buffers.bytes) + 1);
    for (let ended = false; !ended;) {
      const buffer = writing.length < buffers.count
        ? new ArrayBuffer(bufferBytes)
        : await returned(writing, bufferBytes);
      const { chunk, done } = await source.fill(buffer, maxBytes - received + 1);
      ended = done;
      received += chunk.length;
      if (received > maxBytes) throw tooLarge(maxBytes);
      if (chunk.length === 0) break;
      const written = sink.write(chunk);
      // It is looked at when the buffer is needed; until then a failure is nobody's.
      written.catch(() => {});
      writing.push(written);
    }
    await Promise.all(writing);
  } catch (error) {
    source.cancel();
    // First: what waits behind a disk that hangs need not be waited for.
    await Promise.allSettled([sink.abort(), ...writing]);
    throw error;
  }
}

/**
 * Has the sink take a large body from the connection, behind what the server has read of it. Returns how much of it was
 * taken: all, or as much as went this way before it was known that the rest must, too. Throws {@link BodyLost}.
 */
async function handOver(
  source: Source,
  declared: number,
  sink: BodySink,
  connection: Connection,
): Promise<number> {
  let received = 0;
  while (source.read !== undefined && declared - received >= HANDED_OVER_BYTES) {
    const { chunk, done } = await source.read(new ArrayBuffer(FIRST_BYTES));
    received += chunk.length;
    await sink.write(chunk);
    if (done) break;
    // Deno gives what was asked for, or all that it has read.
    if (chunk.length === FIRST_BYTES) continue;
    const rest = await sink.receive(declared - received, connection);
    if (rest === "lost") throw new BodyLost();
    return rest === "complete" ? declared : received;
  }
  return received;
}

/** The buffer that was handed on first, once it was given back. */
async function returned(
  writing: Promise<Uint8Array<ArrayBuffer>>[],
  bufferBytes: number,
): Promise<ArrayBuffer> {
  const bytes = await writing.shift();
  return bytes?.buffer ?? new ArrayBuffer(bufferBytes);
}

/** A part of a body. */
interface Filled {
  readonly chunk: Uint8Array<ArrayBuffer>;
  /** Whether nothing comes behind it. */
  readonly done: boolean;
}

/** Where a body's bytes come from. */
interface Source {
  /** Reads once, where the body is still arriving. Throws {@link BodyLost}. */
  read?(buffer: ArrayBuffer): Promise<Filled>;
  /**
   * Fills a buffer, more or less, and gives it back; at once when there are `enough` bytes. Throws
   * {@link BodyLost}.
   */
  fill(buffer: ArrayBuffer, enough: number): Promise<Filled>;
  /** Reads no further. */
  cancel(): void;
}

/**
 * A body that is still arriving is a stream of bytes, to be asked for `least` to `most` at a time; one that had arrived
 * may be one of chunks.
 */
function sourceOf(body: ReadableStream<Uint8Array>, least: number, most: number): Source {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    return chunkSource(body.getReader());
  }
  return {
    async read(buffer): Promise<Filled> {
      const { done, value } = await orLost(reader.read(new Uint8Array(buffer)));
      if (value === undefined) throw new BodyLost();
      return { chunk: value, done };
    },
    async fill(buffer, enough): Promise<Filled> {
      let held = buffer;
      let filled = 0;
      let ended = false;
      while (!ended && filled < enough && held.byteLength - filled >= least) {
        const step = Math.min(most, held.byteLength - filled);
        const { done, value } = await orLost(reader.read(new Uint8Array(held, filled, step)));
        // Only a reader that was cancelled keeps the buffer.
        if (value === undefined) throw new BodyLost();
        held = value.buffer;
        filled += value.length;
        ended = done;
      }
      return { chunk: new Uint8Array(held, 0, filled), done: ended };
    },
    cancel: () => void reader.cancel().catch(() => {}),
  };
}

function chunkSource(reader: ReadableStreamDefaultReader<Uint8Array>): Source {
  let rest = new Uint8Array();
  let cancelled = false;
  return {
    async fill(buffer, enough): Promise<Filled> {
      const bytes = new Uint8Array(buffer);
      let filled = 0;
      while (filled < enough && filled < bytes.length) {
        if (rest.length === 0) {
          const { done, value } = await orLost(reader.read());
          if (cancelled) throw new BodyLost();
          if (done) return { chunk: bytes.subarray(0, filled), done };
          rest = new Uint8Array(value);
        }
        const piece = rest.subarray(0, bytes.length - filled);
        bytes.set(piece, filled);
        filled += piece.length;
        rest = rest.subarray(piece.length);
      }
      return { chunk: bytes.subarray(0, filled), done: false };
    },
    cancel(): void {
      cancelled = true;
      reader.cancel().catch(() => {});
    },
  };
}

/** Deno's errors carry nothing worth keeping: the bytes ended early or the chunks were malformed. */
async function orLost<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch {
    throw new BodyLost();
  }
}

function tooLarge(maxBytes: number): PlainRefusal {
  return new PlainRefusal(413, `The body exceeds ${maxBytes} bytes.`);
}
