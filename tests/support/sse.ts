/**
 * A command's stream as it is on the wire, cut and decoded by the client library's parser, which it hides nothing of:
 * comments are there too. It reads any stream of bytes: a fetched body or a raw connection's.
 */

import {
  decodeFrame,
  type ExecEvent,
  type Exit,
  FrameParser,
  type Gap,
} from "../../src/client/sse.ts";
import { PATIENCE_MS, within } from "./await_event.ts";
import { concat } from "./bytes.ts";

/** A stream being read. Dispose it to detach, as a client that vanishes does. */
export class SseStream implements AsyncDisposable {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #parser = new FrameParser();
  readonly #check: (frame: string) => void;
  readonly #frames: string[] = [];

  /** Takes the body over; nothing is read before the first `next`. `check` sees every event and may throw. */
  constructor(body: ReadableStream<Uint8Array>, check: (frame: string) => void = () => {}) {
    this.#reader = body.getReader();
    this.#check = check;
  }

  /** The next frame's text, be it a comment; undefined after the end of the body. */
  async nextFrame(): Promise<string | undefined> {
    while (this.#frames.length === 0) {
      const { done, value } = await within("the next SSE frame", this.#reader.read());
      if (!done) this.#frames.push(...this.#parser.push(value));
      else if (this.#parser.between) return undefined;
      else throw new Error("Cannot read the SSE stream: it ended inside a frame");
    }
    return this.#frames.shift();
  }

  /** The next event, decoded; undefined after the end of the body. Comments are passed over. */
  async next(): Promise<ExecEvent | undefined> {
    for (;;) {
      const frame = await this.nextFrame();
      if (frame === undefined) return undefined;
      const event = decodeFrame(frame);
      if (event === undefined) continue;
      this.#check(frame);
      return event;
    }
  }

  /** Events up to the end of the body. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ExecEvent> {
    for (let event = await this.next(); event !== undefined; event = await this.next()) yield event;
  }

  /** Reads on until the decoded output of `stream` (both without one) contains `text`; what it has read so far. */
  async untilOutput(text: string, stream?: string): Promise<string> {
    const decoder = new TextDecoder();
    let seen = "";
    while (!seen.includes(text)) {
      const event = await this.next();
      if (event === undefined || event.event === "exit") {
        throw new Error(
          `Cannot see '${text}' in the stream: it ended after ${JSON.stringify(seen)}`,
        );
      }
      if (event.event === "output" && (stream ?? event.stream) === event.stream) {
        seen += decoder.decode(event.bytes, { stream: true });
      }
    }
    return seen;
  }

  /** Everything up to the end. Keepalives do not make it wait for ever. */
  async rest(): Promise<StreamRest> {
    const events = Array.fromAsync(this);
    return new StreamRest(await within("the end of the SSE stream", events, 3 * PATIENCE_MS));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#reader.cancel().catch(() => {});
  }
}

/** What a stream said up to its end. */
export class StreamRest {
  readonly events: readonly ExecEvent[];

  constructor(events: readonly ExecEvent[]) {
    this.events = events;
  }

  /** Output of one stream, or of both in the order of the wire. */
  bytes(stream?: string): Uint8Array {
    const chunks = this.events.flatMap((event) =>
      event.event === "output" && (stream ?? event.stream) === event.stream ? [event.bytes] : []
    );
    return concat(chunks);
  }

  text(stream?: string): string {
    return new TextDecoder().decode(this.bytes(stream));
  }

  get gaps(): Gap[] {
    return this.events.filter((event) => event.event === "gap");
  }

  /** The exit; throws unless there is exactly one and it is the last event. */
  get exit(): Exit {
    const last = this.events.at(-1);
    const exits = this.events.filter((event) => event.event === "exit").length;
    if (last?.event !== "exit" || exits !== 1) {
      throw new Error(
        `Cannot find the exit: ${exits} of them in ${this.events.length} events, last ${last?.event}`,
      );
    }
    return last;
  }

  /**
   * Throws unless output and gaps lie end to end from `from`, and the exit, if there, stands at their end. The offset
   * to resume from.
   */
  contiguous(from = 0n): bigint {
    let at = from;
    for (const event of this.events) {
      const start = event.event === "gap" ? event.from : event.offset;
      if (start !== at) {
        throw new Error(`Cannot join the stream: ${event.event} at ${start}, expected ${at}`);
      }
      if (event.event === "output") at += BigInt(event.bytes.length);
      if (event.event === "gap") at = event.to;
    }
    return at;
  }
}
