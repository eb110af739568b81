import { encodeJson } from "./contract/json.ts";

/** Levels of the log, from the most talkative to the quietest. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;

/** Level of a log line. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** What a line says beside its message. Never a token, payload, env value or stdin byte. */
export type LogFields = Readonly<Record<string, string | number | bigint | boolean | null>>;

/** Writes a part of `bytes` and returns how many; throws when it cannot. */
export type LogSink = (bytes: Uint8Array<ArrayBuffer>) => number;

/**
 * Writes one JSON object a line, `time`, `level` and `msg` before the fields. It never throws: a
 * daemon that dies because nobody reads its log is worse than a log with a hole.
 */
export class Log {
  readonly #threshold: number;
  #sink: LogSink;
  readonly #encoder = new TextEncoder();
  /** Whether the last line broke off; the next one then begins with a line end of its own. */
  #torn = false;
  #dropped = 0;

  /**
   * Makes a log that drops what is below `level`; the sink is standard error unless told otherwise.
   */
  constructor(level: LogLevel, sink: LogSink = (bytes) => Deno.stderr.writeSync(bytes)) {
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
    const head = { time: new Date().toISOString(), level, msg };
    const line = encodeJson({ ...head, ...fields, ...head });
    let rest = this.#encoder.encode(`${this.#torn ? "\n" : ""}${line}\n`);
    const whole = rest.length;
    try {
      while (rest.length > 0) rest = rest.subarray(this.#sink(rest));
    } finally {
      if (rest.length < whole) this.#torn = rest.length > 0;
    }
  }
}
