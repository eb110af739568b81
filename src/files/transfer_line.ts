import { cut } from "../contract/refusal.ts";
import type { Log, LogFields, LogLevel } from "../log.ts";

/** What is done with a path. */
export type TransferKind = "read file" | "write file" | "read tree" | "write tree";

/** The one line that the log has of a transfer, at its end. */
export class TransferLine {
  /** How many bytes went. */
  bytes = 0;
  readonly #log: Log;
  readonly #kind: TransferKind;
  readonly #path: string;
  readonly #startedMs = performance.now();
  #told = false;

  /** For a transfer that begins now. */
  constructor(log: Log, kind: TransferKind, path: string) {
    this.#log = log;
    this.#kind = kind;
    this.#path = path;
  }

  /** Logs how it ended; what is said after that is no end of it. */
  tell(level: LogLevel, msg: string, more: LogFields = {}): void {
    if (this.#told) return;
    this.#told = true;
    this.#log[level](msg, {
      transfer: this.#kind,
      path: cut(this.#path),
      bytes: this.bytes,
      seconds: Math.round(performance.now() - this.#startedMs) / 1000,
      ...more,
    });
  }
}
