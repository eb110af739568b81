import { encodeJson } from "./contract/json.ts";

/** Levels of the log, from the most talkative to the quietest. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;

/** Level of a log line. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** What a line says beside its message. Never a token, payload, argument, env value or stdin byte. */
export type LogFields =
  & Readonly<Record<string, string | number | bigint | boolean | null>>
  & { readonly [K in "time" | "level" | "msg"]?: never };

/** Most lines are shorter than this, in bytes. */
const LINE_BYTES = 4096;

/** Writes a line, which is gone when this returns, or throws when it cannot. */
export type LogSink = (line: Uint8Array<ArrayBuffer>) => void;

/**
 * Writes one JSON object a line, `time`, `level` and `msg` before the fields. It never throws: a
 * daemon that dies because nobody reads its log is worse than a log with a hole.
 */
export class Log {
  readonly #threshold: number;
  #sink: LogSink;
  readonly #encoder = new TextEncoder();
  readonly #buffer = new Uint8Array(LINE_BYTES);
  readonly #clock = new IsoClock();
  #dropped = 0;

  /**
   * Makes a log that drops what is below `level`; the sink is standard error unless told otherwise.
   */
  constructor(level: LogLevel, sink: LogSink = writeToStderr) {
    this.#threshold = LOG_LEVELS.indexOf(level);
    this.#sink = sink;
  }

  /** Writes to `sink` from now on. */
  redirect(sink: LogSink): void {
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
    const head = `{"time":"${this.#clock.now()}","level":"${level}","msg":${encodeJson(msg)}`;
    const more = encodeJson(fields).slice(1);
    const line = `${head}${more === "}" ? "" : ","}${more}\n`;
    // Busy daemons write thousands a second. A UTF-16 unit makes at most three bytes.
    if (3 * line.length > LINE_BYTES) return this.#sink(this.#encoder.encode(line));
    const { written } = this.#encoder.encodeInto(line, this.#buffer);
    this.#sink(this.#buffer.subarray(0, written));
  }
}

/** The wall clock as ISO 8601 has it; a date is made once a second only. */
class IsoClock {
  #second = -1;
  /** That second without its end. */
  #text = "";

  now(): string {
    const ms = Date.now();
    const second = Math.floor(ms / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#text = new Date(1000 * second).toISOString().slice(0, -4);
    }
    return `${this.#text}${String(ms - 1000 * second).padStart(3, "0")}Z`;
  }
}

function writeToStderr(line: Uint8Array<ArrayBuffer>): void {
  let rest = line;
  while (rest.length > 0) rest = rest.subarray(Deno.stderr.writeSync(rest));
}
