import { bodyTooLarge } from "../contract/refusal.ts";
import type { Sink } from "../files/files.ts";
import { abandonBody, beginBody, declaredLength } from "./body.ts";
import { BodyLost } from "./body_lost.ts";

/** How much is collected before it is handed on, in bytes. */
const CHUNK_BYTES = 512 * 1024;
/**
 * How a chunked body is read. At each reading Deno 2.9 takes `most` bytes from the socket but gives no more than the
 * rest of one of the sender's chunks: what is over piles up in its memory, and is moved at every further reading. In a turn
 * of the event loop Tokio lets it read a socket 128 times, so that more bytes than that in a row use the pile up. A reading
 * that is too small for what stands between two chunks is never answered, though more arrives.
 */
const CHUNKED: Steps = { least: 4096, most: 4096, bytes: 160 * 4096, turns: 8 };
/**
 * How a declared body is read. Bytes that are at hand come without a turn of the event loop, so that everybody else would
 * wait for all that Deno and the kernel have of them; a command's start and end take several turns, and an empty one
 * microseconds.
 */
const DECLARED: Steps = { least: 1, most: 128 * 1024, bytes: 128 * 1024, turns: 2 };
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
 * Who collects how much: a few uploads 2 MiB each, which is fastest, and those that come while they are under way
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

/** Where a body goes. */
export interface Pouring {
  /** What takes the bytes. */
  readonly sink: Sink;
  /** Most bytes of it. */
  readonly maxBytes: number;
  /** Stops the reading when it is aborted. */
  readonly stopped: AbortSignal;
  /** Where the buffers come from. */
  readonly share: BufferShare;
}

/** Throws 413 for a body that is declared larger than `maxBytes`. */
export function refuseDeclared(request: Request, maxBytes: number): void {
  if ((declaredLength(request) ?? 0) > maxBytes) throw bodyTooLarge(maxBytes);
}

/**
 * Hands a request's body to a sink, through a few buffers: the bytes are copied into them once, and the client waits while
 * all are on their way. Throws 413 as soon as there are more than `maxBytes`, {@link BodyLost}, what the sink throws, and
 * the reason of `stopped`; some bytes may then still be on their way.
 */
export async function pourBody(
  request: Request,
  { sink, maxBytes, stopped, share }: Pouring,
): Promise<void> {
  if (request.body === null) return;
  beginBody(request);
  using buffers = share.take();
  const declared = declaredLength(request);
  // One byte more than a small body has, so that its end is seen at once.
  const bufferBytes = Math.min(buffers.bytes, (declared ?? buffers.bytes) + 1);
  const chunked = request.headers.has("transfer-encoding");
  const source = sourceOf(request.body, chunked ? CHUNKED : DECLARED);
  // The client may wait for the answer before it sends on, so whatever goes wrong ends the reading.
  const failed = Promise.withResolvers<never>();
  stopped.addEventListener("abort", () => failed.reject(stopped.reason));
  const written: Promise<Uint8Array<ArrayBuffer>>[] = [];
  async function pour(): Promise<void> {
    let received = 0;
    for (let ended = false; !ended;) {
      const spare = written.length < buffers.count ? undefined : (await written.shift())?.buffer;
      const filled = await source.fill(
        spare ?? new ArrayBuffer(bufferBytes),
        maxBytes - received + 1,
      );
      ended = filled.done;
      received += filled.chunk.length;
      if (received > maxBytes) throw bodyTooLarge(maxBytes);
      if (filled.chunk.length === 0) break;
      const taken = sink.write(filled.chunk);
      taken.catch(failed.reject);
      written.push(taken);
    }
    // Freed now, and not when they are collected: four uploads have 8 MiB.
    for (const { buffer } of await Promise.all(written)) buffer.transfer(0);
  }
  try {
    stopped.throwIfAborted();
    await Promise.race([failed.promise, pour()]);
  } catch (error) {
    abandonBody(request, source);
    throw error;
  }
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
  cancel(): Promise<void>;
}

/** How a body that is still arriving is read. */
interface Steps {
  /** Fewest bytes to ask for. */
  readonly least: number;
  /** Most bytes to ask for. */
  readonly most: number;
  /** Everybody else has their turns after so many. */
  readonly bytes: number;
  /** How many turns of the event loop these are. */
  readonly turns: number;
}

/** A body that is still arriving is a stream of bytes; one that had arrived is whole. */
function sourceOf(body: ReadableStream<Uint8Array>, { least, most, bytes, turns }: Steps): Source {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    return arrivedSource(body.getReader());
  }
  let untilTurn = bytes;
  return {
    async fill(buffer, enough): Promise<Filled> {
      let lent = buffer;
      let filled = 0;
      let ended = false;
      while (!ended && filled < enough && lent.byteLength - filled >= least) {
        const room = Math.min(most, lent.byteLength - filled);
        const { done, value } = await orLost(reader.read(new Uint8Array(lent, filled, room)));
        // Only a reader that was cancelled keeps the buffer.
        if (value === undefined) throw new BodyLost();
        lent = value.buffer;
        filled += value.length;
        ended = done;
        untilTurn -= value.length;
        if (untilTurn > 0) continue;
        untilTurn = bytes;
        for (let turn = 0; turn < turns; turn++) await new Promise((go) => setImmediate(go));
      }
      return { chunk: new Uint8Array(lent, 0, filled), done: ended };
    },
    cancel: () => reader.cancel(),
  };
}

function arrivedSource(reader: ReadableStreamDefaultReader<Uint8Array>): Source {
  return {
    async fill(): Promise<Filled> {
      const { done, value } = await orLost(reader.read());
      return { chunk: new Uint8Array(value ?? []), done };
    },
    cancel: () => reader.cancel(),
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
