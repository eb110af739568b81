import type { ExitEvent } from "../contract/stream.ts";
import type { StreamReader, StreamRecord } from "../native/stream.ts";
import { within } from "../within.ts";
import { exitFrame, gapFrame, keepaliveFrame, outputFrameBound, writeOutputFrame } from "./sse.ts";

/** What the body of a stream is made of. */
export interface EventBodyOptions {
  /** Reads the exec's stream; the body disposes of it. */
  readonly reader: StreamReader;
  /** How the exec ended, once the reader is at its end. */
  readonly exit: () => ExitEvent;
  /** A comment is sent after this time without an event, in milliseconds. */
  readonly keepaliveMs: number;
  /** Called once, when the body ended or its client left. */
  readonly onEnd: () => void;
}

/**
 * The body of an event stream: pulled by the connection, so that a slow client costs no memory.
 *
 * Invariant: the reader is attached until the exit was sent, the client left or `close` was called.
 */
export class EventBody implements UnderlyingDefaultSource<Uint8Array<ArrayBuffer>> {
  readonly #options: EventBodyOptions;
  #controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined;
  #wakened: (() => void) | undefined;
  #first: Uint8Array<ArrayBuffer> | undefined;
  #ended = false;

  /** A body that has sent nothing yet. */
  constructor(options: EventBodyOptions) {
    this.#options = options;
  }

  /**
   * Waits at most `ms` for the first events. Gives them all when the exit is among them: then
   * nothing is left of this body. Else undefined, and they are sent as the stream begins.
   */
  async whole(ms: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
    let records = this.#next();
    if (records.length === 0 && ms > 0 && await this.#readable(ms) && !this.#ended) {
      records = this.#next();
    }
    if (records.length === 0) return undefined;
    const frames = this.#frames(records);
    if (records.at(-1)?.kind !== "end") {
      this.#first = frames;
      return undefined;
    }
    this.#end();
    return frames;
  }

  /** Sends the first events, if there were any, and remembers where to send more. */
  start(controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>): void {
    this.#controller = controller;
    if (this.#first !== undefined) controller.enqueue(this.#first);
    this.#first = undefined;
    if (this.#ended) controller.close();
  }

  /** Sends what there is; waits if there is nothing, and says so after a while. */
  async pull(controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>): Promise<void> {
    while (!this.#ended) {
      const records = this.#options.reader.next();
      if (records.length > 0) {
        controller.enqueue(this.#frames(records));
        if (records.at(-1)?.kind === "end") this.close();
        return;
      }
      if (!await this.#readable(this.#options.keepaliveMs) && !this.#ended) {
        controller.enqueue(keepaliveFrame());
        return;
      }
    }
  }

  /** What there is; ends the body if that cannot be told, for then nobody will read on. */
  #next(): StreamRecord[] {
    try {
      return this.#options.reader.next();
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  /** The client left. */
  cancel(): void {
    this.#end();
  }

  /** Ends the body where it is. */
  close(): void {
    if (this.#ended) return;
    this.#end();
    this.#controller?.close();
  }

  /** Waits for something to read; false when there was nothing for so long. */
  async #readable(ms: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#wakened = () => resolve(true);
    this.#options.reader.whenReadable(this.#wakened);
    return await within(ms, promise, false);
  }

  #frames(records: readonly StreamRecord[]): Uint8Array<ArrayBuffer> {
    // Output is encoded where it will lie; what is short is encoded now, for its length.
    const parts = records.map((record) =>
      "bytes" in record
        ? record
        : record.kind === "gap"
        ? gapFrame(record)
        : exitFrame(this.#options.exit())
    );
    let bound = 0;
    for (const part of parts) {
      bound += part instanceof Uint8Array ? part.length : outputFrameBound(part.bytes.length);
    }
    const target = new Uint8Array(bound);
    let at = 0;
    for (const part of parts) {
      if (part instanceof Uint8Array) {
        target.set(part, at);
        at += part.length;
      } else at += writeOutputFrame(target, at, part.offset, part.kind, part.bytes);
    }
    return target.subarray(0, at);
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#wakened?.();
    this.#options.reader[Symbol.dispose]();
    this.#options.onEnd();
  }
}
