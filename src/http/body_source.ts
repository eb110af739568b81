import { abandonBody, BodyLost, giveUpBody } from "./framing.ts";
import { Pace } from "./pace.ts";

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

/** A part of a body. */
export interface Filled {
  /** Its bytes, at the beginning of the buffer that was lent. */
  readonly chunk: Uint8Array<ArrayBuffer>;
  /** Whether nothing comes behind it. */
  readonly done: boolean;
}

/** How fast a body has to come. */
export interface Speed {
  /** So many bytes */
  readonly bytes: number;
  /** within so many milliseconds in which it is waited for. */
  readonly ms: number;
}

/**
 * A request's body, read into buffers. One that comes too slowly is given up.
 *
 * Invariant: `#lost` is set once it was given up, and everything that is read fails from then on.
 */
export class BodySource implements Disposable {
  readonly #request: Request;
  readonly #steps: Steps;
  readonly #pace: Pace | undefined;
  /** A body that is still arriving is a stream of bytes; one that had arrived is whole. */
  readonly #reader: ReadableStreamBYOBReader | ReadableStreamDefaultReader<Uint8Array>;
  #untilTurn: number;
  #lost: BodyLost | undefined;

  /** Nothing is read yet; without a speed the body may take its time. */
  constructor(request: Request, body: ReadableStream<Uint8Array>, speed?: Speed) {
    this.#request = request;
    this.#steps = request.headers.has("transfer-encoding") ? CHUNKED : DECLARED;
    this.#untilTurn = this.#steps.bytes;
    this.#pace = speed && new Pace({
      ...speed,
      giveUp: () => {
        const wanted = speed.bytes === 1 ? "nothing" : `less than ${speed.bytes} bytes`;
        this.giveUp(`The body came too slowly: ${wanted} within ${speed.ms / 1000} s.`);
      },
    });
    try {
      this.#reader = body.getReader({ mode: "byob" });
    } catch {
      this.#reader = body.getReader();
    }
  }

  /**
   * Fills a buffer, more or less, and gives it back, or another that holds more; at once when there are `enough` bytes.
   * Throws {@link BodyLost}.
   */
  async fill(buffer: ArrayBuffer, enough = Infinity): Promise<Filled> {
    const { least, most, bytes, turns } = this.#steps;
    let lent = buffer;
    let filled = 0;
    let ended = false;
    while (!ended && filled < enough && lent.byteLength - filled >= least) {
      const room = Math.min(most, lent.byteLength - filled);
      const reader = this.#reader;
      if (reader instanceof ReadableStreamDefaultReader) {
        const { done, value = new Uint8Array() } = await this.#inPace(reader.read());
        return { chunk: new Uint8Array(value), done };
      }
      const into = new Uint8Array(lent, filled, room);
      const { done, value } = await this.#inPace(reader.read(into));
      // Only a reader that was cancelled keeps the buffer.
      if (value === undefined) throw new BodyLost();
      lent = value.buffer;
      filled += value.length;
      ended = done;
      this.#untilTurn -= value.length;
      if (this.#untilTurn > 0) continue;
      this.#untilTurn = bytes;
      for (let turn = 0; turn < turns; turn++) await new Promise((go) => setImmediate(go));
    }
    return { chunk: new Uint8Array(lent, 0, filled), done: ended };
  }

  /** What is read from now on fails, and what is being read, with this as the answer; the connection ends with it. */
  giveUp(text: string): void {
    this.#lost ??= new BodyLost(text);
    giveUpBody(this.#request);
    this.abandon();
  }

  /** Reads no further: the connection ends with the answer. */
  abandon(): void {
    abandonBody(this.#request);
    // Not awaited: the answer never waits for body bytes.
    this.#reader.cancel().catch(() => {});
  }

  /** Gives it up no more. */
  [Symbol.dispose](): void {
    this.#pace?.[Symbol.dispose]();
  }

  /** Waits for a part. */
  async #inPace<T extends { readonly value?: Uint8Array | undefined }>(
    reading: Promise<T>,
  ): Promise<T> {
    // Deno's errors carry nothing worth keeping: the bytes ended early or the chunks were malformed.
    const read = await (this.#pace?.read(reading) ?? reading).catch(() => undefined);
    if (this.#lost !== undefined || read === undefined) throw this.#lost ?? new BodyLost();
    return read;
  }
}
