/**
 * A client for Server-Sent Events that hides nothing: comments are items too, and the exact bytes of each output
 * event and exact 64-bit offsets are there. It reads any stream of bytes: a fetched body or a raw connection's.
 */

import { PATIENCE_MS, within } from "./await_event.ts";
import { concat } from "./bytes.ts";

/** A comment line, such as the keepalive. */
export interface SseComment {
  readonly kind: "comment";
  readonly text: string;
}

export interface SseEvent {
  readonly kind: "event";
  /** `message` where the frame names none. */
  readonly event: string;
  /** The data lines, joined by newlines. */
  readonly data: string;
}

/** An item in the order of the wire. */
export type SseItem = SseComment | SseEvent;

/** An `output` event with its bytes. */
export interface Output {
  readonly event: "output";
  readonly offset: bigint;
  readonly stream: string;
  readonly bytes: Uint8Array;
}

/** A `gap` event. */
export interface Gap {
  readonly event: "gap";
  readonly from: bigint;
  readonly to: bigint;
}

/** An `exit` event. */
export interface Exit {
  readonly event: "exit";
  readonly exit_code: number | null;
  readonly signal: number | null;
  readonly truncated: boolean;
  readonly writers_may_be_alive: boolean;
  readonly offset: bigint;
}

/** An event of an exec's stream, decoded. */
export type ExecEvent = Output | Gap | Exit;

const BIGINT_KEYS = new Set(["offset", "from", "to"]);

/** JSON whose offsets are bigints, so that none is rounded. */
export function parseExact(text: string): unknown {
  // The third argument is newer than TypeScript's declaration of JSON.parse.
  const reviver = (key: string, value: unknown, context?: { source?: string }): unknown =>
    BIGINT_KEYS.has(key) && typeof value === "number" ? BigInt(context?.source ?? "") : value;
  return JSON.parse(text, reviver as (key: string, value: unknown) => unknown);
}

/** Decodes an event of an exec's stream; throws for one that the protocol does not know. */
export function decodeExecEvent({ event, data }: SseEvent): ExecEvent {
  const fields = parseExact(data) as Record<string, unknown>;
  if (event === "output") {
    const bytes = Uint8Array.fromBase64(fields["output"] as string);
    return { event, offset: fields["offset"] as bigint, stream: fields["stream"] as string, bytes };
  }
  if (event === "gap" || event === "exit") return { event, ...fields } as Gap | Exit;
  throw new Error(`Cannot decode an SSE event: '${event}' is not in the protocol`);
}

/**
 * Incremental parser: bytes in any pieces go in, whole items come out. Invariant: `#rest` is what follows the last
 * line end seen, `#event` and `#data` belong to the frame that is still open.
 */
export class SseParser {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #rest = "";
  #event = "";
  #data: string[] = [];

  /** Whether everything that was pushed belongs to a finished item. */
  get between(): boolean {
    return this.#rest === "" && this.#event === "" && this.#data.length === 0;
  }

  /** The items that these bytes complete. */
  push(bytes: Uint8Array): SseItem[] {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split(/\r?\n/);
    this.#rest = lines.pop() ?? "";
    const items: SseItem[] = [];
    for (const line of lines) {
      const item = this.#line(line);
      if (item !== undefined) items.push(item);
    }
    return items;
  }

  #line(line: string): SseItem | undefined {
    if (line.startsWith(":")) return { kind: "comment", text: line.slice(1) };
    if (line === "") return this.#close();
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    else throw new Error(`Cannot read an SSE line: unknown field '${field}'`);
    return undefined;
  }

  #close(): SseEvent | undefined {
    if (this.#event === "" && this.#data.length === 0) return undefined;
    const item: SseEvent = {
      kind: "event",
      event: this.#event || "message",
      data: this.#data.join("\n"),
    };
    this.#event = "";
    this.#data = [];
    return item;
  }
}

/** A stream being read. Dispose it to detach, as a client that vanishes does. */
export class SseStream implements AsyncDisposable {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #parser = new SseParser();
  readonly #check: (event: SseEvent) => void;
  #ready: SseItem[] = [];
  #ended = false;

  /** Takes the body over; nothing is read before the first `next`. `check` sees every event and may throw. */
  constructor(body: ReadableStream<Uint8Array>, check: (event: SseEvent) => void = () => {}) {
    this.#reader = body.getReader();
    this.#check = check;
  }

  /** The next item, comments included; undefined after the end of the body. */
  async nextItem(): Promise<SseItem | undefined> {
    while (this.#ready.length === 0 && !this.#ended) {
      const { done, value } = await within("the next SSE item", this.#reader.read());
      if (done) this.#ended = true;
      else this.#ready = this.#parser.push(value);
    }
    const item = this.#ready.shift();
    if (item === undefined && !this.#parser.between) {
      throw new Error("Cannot read the SSE stream: it ended inside an item");
    }
    return item;
  }

  /** The next event, decoded; undefined after the end of the body. Comments are passed over. */
  async next(): Promise<ExecEvent | undefined> {
    for (;;) {
      const item = await this.nextItem();
      if (item === undefined) return undefined;
      if (item.kind === "event") {
        this.#check(item);
        return decodeExecEvent(item);
      }
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
