import { PlainRefusal } from "../contract/refusal.ts";
import { abandonBody, beginBody, declaredLength } from "./body.ts";
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

/** What takes a body's bytes. */
export interface BodySink {
  /** Takes bytes, and gives them back when they may be used again. */
  write(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
  /** There will be no more, and what was taken is worth nothing. */
  abort(): Promise<void>;
}

/** How a body is read. */
export interface BodyReading {
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
 * Hands a request's body to `sink`, through a few buffers: the bytes are copied into them once, and the client waits while
 * all are on their way. Throws 413 as soon as there are more than `maxBytes`, {@link BodyLost}, and what `sink` throws;
 * then the sink was aborted and nothing is under way.
 */
export async function pumpBody(
  request: Request,
  maxBytes: number,
  sink: BodySink,
  { share, onStop }: BodyReading,
): Promise<void> {
  if (request.body === null) return;
  beginBody(request);
  const declared = declaredLength(request);
  const chunked = request.headers.has("transfer-encoding");
  const source = chunked
    ? sourceOf(request.body, CHUNKED_STEP_BYTES, CHUNKED_STEP_BYTES)
    : sourceOf(request.body, 1, CHUNK_BYTES);
  // Why the reading was given up, if it was: what the body then says of itself is not it.
  let given: { readonly up: unknown } | undefined;
  const giveUp = (up: unknown): void => {
    given ??= { up };
    source.cancel();
  };
  onStop(() => giveUp(over()));
  const writing: Promise<Uint8Array<ArrayBuffer>>[] = [];
  try {
    let received = 0;
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
      // The client may wait for the answer before it sends on.
      written.catch(giveUp);
      writing.push(written);
    }
    await Promise.all(writing);
  } catch (error) {
    abandonBody(request, source);
    // First: what waits behind a disk that hangs need not be waited for.
    const cause = given === undefined ? error : given.up;
    await Promise.allSettled([sink.abort(), ...writing]);
    throw cause;
  }
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

/**
 * Deno's errors carry nothing worth keeping: the bytes ended early or the chunks were malformed. But at the server's
 * shutdown it takes the bodies in flight away (denoland/deno#36809).
 */
async function orLost<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    throw error instanceof Deno.errors.BadResource ? over() : new BodyLost();
  }
}

function over(): PlainRefusal {
  return new PlainRefusal(500, "Cannot write on: the upload is over");
}

function tooLarge(maxBytes: number): PlainRefusal {
  return new PlainRefusal(413, `The body exceeds ${maxBytes} bytes.`);
}
