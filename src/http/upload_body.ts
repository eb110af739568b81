import { PlainRefusal } from "../contract/refusal.ts";
import { BodyLost, declaredLength } from "./body.ts";

/** How much is collected before it is handed on, in bytes. */
const CHUNK_BYTES = 1024 * 1024;
/**
 * How much of a chunked body is asked for at a time, in bytes. At each reading Deno 2.9 takes as much from the socket
 * as was asked for but gives one of the sender's chunks: what is asked for beyond that piles up in its memory, and is
 * moved at every further reading.
 */
const CHUNKED_STEP_BYTES = 4096;
/** How many such buffers there are: one is filled while the others are written. */
const BUFFERS = 4;

/** Takes bytes, and gives them back when they may be used again. */
export type Write = (bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>;

/** A body that can be stopped from outside. */
export interface BodyStop {
  /** Called with what stops the reading; the body then counts as lost. */
  readonly onStop: (stop: () => void) => void;
}

/** Throws 413 for a body that is declared larger than `maxBytes`. */
export function refuseDeclared(request: Request, maxBytes: number): void {
  if ((declaredLength(request) ?? 0) > maxBytes) throw tooLarge(maxBytes);
}

/**
 * Hands a request's body to `write`, through a few buffers that go round: the bytes are copied into
 * them once and the peer waits while all are on their way. Throws 413 as soon as there are more
 * than `maxBytes`, {@link BodyLost}, and what `write` throws; nothing is under way then.
 */
export async function pumpBody(
  request: Request,
  maxBytes: number,
  write: Write,
  { onStop }: BodyStop,
): Promise<void> {
  if (request.body === null) return;
  // One byte more than a small body has, so that its end is seen at once.
  const bufferBytes = Math.min(CHUNK_BYTES, (declaredLength(request) ?? CHUNK_BYTES) + 1);
  const chunked = request.headers.has("transfer-encoding");
  const source = sourceOf(request.body, chunked ? CHUNKED_STEP_BYTES : CHUNK_BYTES);
  onStop(() => source.cancel());
  const writing: Promise<Uint8Array<ArrayBuffer>>[] = [];
  let buffers = 0;
  let received = 0;
  try {
    for (let ended = false; !ended;) {
      const buffer = buffers < BUFFERS ? new ArrayBuffer(bufferBytes) : await returned(writing);
      buffers++;
      const chunk = await source.fill(buffer);
      ended = chunk.length < bufferBytes;
      received += chunk.length;
      if (received > maxBytes) throw tooLarge(maxBytes);
      if (chunk.length === 0) break;
      const written = write(chunk);
      // It is looked at when the buffer is needed; until then a failure is nobody's.
      written.catch(() => {});
      writing.push(written);
    }
    await Promise.all(writing);
  } catch (error) {
    source.cancel();
    await Promise.allSettled(writing);
    throw error;
  }
}

/** The buffer that was handed on first, once it was given back. */
async function returned(writing: Promise<Uint8Array<ArrayBuffer>>[]): Promise<ArrayBuffer> {
  const bytes = await writing.shift();
  return bytes?.buffer ?? new ArrayBuffer(CHUNK_BYTES);
}

/** Where a body's bytes come from. */
interface Source {
  /** Fills a buffer as far as the body goes, and gives it back. Throws {@link BodyLost}. */
  fill(buffer: ArrayBuffer): Promise<Uint8Array<ArrayBuffer>>;
  /** Reads no further. */
  cancel(): void;
}

/** A body that is still arriving is a stream of bytes; one that had arrived may be one of chunks. */
function sourceOf(body: ReadableStream<Uint8Array>, stepBytes: number): Source {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    return chunkSource(body.getReader());
  }
  return {
    async fill(buffer): Promise<Uint8Array<ArrayBuffer>> {
      let held = buffer;
      let filled = 0;
      while (filled < held.byteLength) {
        const step = Math.min(stepBytes, held.byteLength - filled);
        const { done, value } = await orLost(reader.read(new Uint8Array(held, filled, step)));
        // Only a reader that was cancelled keeps the buffer.
        if (value === undefined) throw new BodyLost();
        held = value.buffer;
        if (done) break;
        filled += value.length;
      }
      return new Uint8Array(held, 0, filled);
    },
    cancel: () => void reader.cancel().catch(() => {}),
  };
}

function chunkSource(reader: ReadableStreamDefaultReader<Uint8Array>): Source {
  let rest = new Uint8Array();
  let cancelled = false;
  return {
    async fill(buffer): Promise<Uint8Array<ArrayBuffer>> {
      const bytes = new Uint8Array(buffer);
      let filled = 0;
      while (filled < bytes.length) {
        if (rest.length === 0) {
          const { done, value } = await orLost(reader.read());
          if (cancelled) throw new BodyLost();
          if (done) break;
          rest = new Uint8Array(value);
        }
        const piece = rest.subarray(0, bytes.length - filled);
        bytes.set(piece, filled);
        filled += piece.length;
        rest = rest.subarray(piece.length);
      }
      return bytes.subarray(0, filled);
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
