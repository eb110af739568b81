import { encodeJson } from "./contract/json.ts";
import { within } from "./within.ts";

/** Levels of the log, from the most talkative to the quietest. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;

/** Level of a log line. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** What a line says beside its message. Never a token, payload, argument, env value or stdin byte. */
export type LogFields =
  & Readonly<Record<string, string | number | bigint | boolean | null>>
  & { readonly [K in "time" | "level" | "msg"]?: never };

/** Most that waits to be written, in characters: a reader that is slow, as of a serial line, is not to lose a burst. */
const QUEUE_CHARS = 128 * 1024;
/** So many characters are worth writing at once. */
const BATCH_CHARS = 16 * 1024;
/**
 * From one writing to the next, unless there is a batch before, in milliseconds. The lines of a busy daemon, two for each
 * command, go many at a time then, and the log's reader is not woken for each.
 */
const REST_MS = 10;

/** Writes a line, or throws when it cannot. */
export type LogSink = (line: string) => void;

/**
 * Writes one JSON object a line, `time`, `level` and `msg` before the fields. It never throws: a
 * daemon that dies because nobody reads its log is worse than a log with a hole.
 */
export class Log {
  readonly #threshold: number;
  readonly #sink: LogSink;
  #dropped = 0;

  /**
   * Makes a log that drops what is below `level`; the sink is standard error unless told otherwise.
   */
  constructor(level: LogLevel, sink: LogSink = writeToStderr) {
    this.#threshold = LOG_LEVELS.indexOf(level);
    this.#sink = sink;
  }

  /** Logs what helps to follow a single request. */
  debug(msg: string, fields?: LogFields): void {
    this.#write("debug", msg, fields);
  }

  /** Logs what an operator wants to know of a healthy daemon. */
  info(msg: string, fields?: LogFields): void {
    this.#write("info", msg, fields);
  }

  /** Logs what is not as it should be but was coped with. */
  warn(msg: string, fields?: LogFields): void {
    this.#write("warn", msg, fields);
  }

  /** Logs a failure. */
  error(msg: string, fields?: LogFields): void {
    this.#write("error", msg, fields);
  }

  #write(level: LogLevel, msg: string, fields: LogFields = {}): void {
    if (LOG_LEVELS.indexOf(level) < this.#threshold) return;
    try {
      this.#tellDropped();
      this.#line(level, msg, fields);
    } catch {
      // A full or closed standard error: the line is lost, the daemon goes on.
      this.#dropped++;
    }
  }

  /** A hole in the log is told before the next line. */
  #tellDropped(): void {
    if (this.#dropped === 0) return;
    this.#line("warn", "log lines were lost", { count: this.#dropped });
    this.#dropped = 0;
  }

  #line(level: LogLevel, msg: string, fields: LogFields): void {
    const time = new Date().toISOString();
    this.#sink(`${encodeJson({ time, level, msg, ...fields })}\n`);
  }
}

/**
 * Standard error, for lines that nobody waits for: a log that nobody reads must not stop the daemon.
 *
 * Invariant: `#chars` is the length of all `#lines`; while there are any, and until they are written, `#writing` is the
 * writing of them.
 */
export class StderrQueue {
  #lines: string[] = [];
  #chars = 0;
  #writing: Promise<void> | undefined;
  #hurry = false;
  #goOn: () => void = () => {};

  /** Has a line written, sometime. Throws where too much waits already. */
  write(line: string): void {
    if (this.#chars + line.length > QUEUE_CHARS) throw new Error("Cannot log: too much waits");
    this.#lines.push(line);
    this.#chars += line.length;
    if (this.#chars >= BATCH_CHARS) this.#goOn();
    this.#writing ??= this.#write();
  }

  /** Waits until all is written, at most `ms` milliseconds. */
  async flush(ms: number): Promise<void> {
    this.#hurry = true;
    this.#goOn();
    await within(ms, this.#writing ?? Promise.resolve(), undefined);
  }

  async #write(): Promise<void> {
    while (this.#lines.length > 0) {
      let rest = new TextEncoder().encode(this.#lines.join(""));
      this.#lines = [];
      this.#chars = 0;
      while (rest.length > 0) rest = rest.subarray(await written(rest));
      if (!this.#hurry) await this.#rest();
    }
    this.#writing = undefined;
  }

  async #rest(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#goOn = resolve;
    await within(REST_MS, promise, undefined);
  }
}

/** How much was written. What nobody can read any more counts as written. */
async function written(bytes: Uint8Array<ArrayBuffer>): Promise<number> {
  try {
    return await Deno.stderr.write(bytes);
  } catch (error) {
    if (!(error instanceof Deno.errors.WouldBlock)) return bytes.length;
    // Whoever shares it has made it one that does not wait.
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
    return 0;
  }
}

function writeToStderr(line: string): void {
  let rest = new TextEncoder().encode(line);
  while (rest.length > 0) rest = rest.subarray(Deno.stderr.writeSync(rest));
}
