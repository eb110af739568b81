/** The daemon's log as tests see it: every line so far, and a promise for one that is still to come. */

import { within } from "./await_event.ts";

/** One line of the log. What is no JSON object, say a crash of the runtime, has level `raw` and the line as `msg`. */
export interface LogLine {
  readonly time: string;
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/**
 * Invariant: every waiter in `#waiters` has been shown every line in `lines`, and none of them matched it.
 */
export class LogLines {
  /** Every line so far, oldest first. */
  readonly lines: LogLine[] = [];
  /** Settles when the stream has ended, after the last line. */
  readonly ended: Promise<void>;
  readonly #waiters = new Set<
    { matches: (line: LogLine) => boolean; take: (line: LogLine) => void }
  >();

  constructor(stream: ReadableStream<Uint8Array>) {
    this.ended = this.#read(stream);
  }

  /** The first line that matches, of those already written or still to come; rejects when the log ends without. */
  async until(
    what: string,
    matches: (line: LogLine) => boolean,
    timeoutMs?: number,
  ): Promise<LogLine> {
    const there = this.lines.find(matches);
    if (there !== undefined) return there;
    const { promise, resolve, reject } = Promise.withResolvers<LogLine>();
    const waiter = { matches, take: resolve };
    this.#waiters.add(waiter);
    const over = this.ended.then(() =>
      reject(new Error(`Cannot see ${what}: the log has ended\n${this}`))
    );
    try {
      return await within(what, Promise.race([promise, over.then(() => promise)]), timeoutMs);
    } finally {
      this.#waiters.delete(waiter);
      promise.catch(() => {});
    }
  }

  withMessage(msg: string): LogLine[] {
    return this.lines.filter((line) => line.msg === msg);
  }

  /** The whole log, to be searched for what must not be in it, or shown with a failure. */
  toString(): string {
    return this.lines.map((line) => (line.level === "raw" ? line.msg : JSON.stringify(line))).join(
      "\n",
    );
  }

  async #read(stream: ReadableStream<Uint8Array>): Promise<void> {
    let rest = "";
    const decoder = new TextDecoder();
    for await (const chunk of stream) {
      const pieces = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = pieces.pop() ?? "";
      for (const piece of pieces) this.#add(parseLine(piece));
    }
    if (rest !== "") this.#add(parseLine(rest));
  }

  #add(line: LogLine): void {
    this.lines.push(line);
    for (const waiter of this.#waiters) {
      if (!waiter.matches(line)) continue;
      this.#waiters.delete(waiter);
      waiter.take(line);
    }
  }
}

function parseLine(text: string): LogLine {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null && "msg" in parsed) return parsed as LogLine;
  } catch {
    // Not ours: shown as it is.
  }
  return { time: "", level: "raw", msg: text };
}
