import type { ConnectionFacts } from "../native/connections.ts";

/** From one look at a connection to the next, in milliseconds. */
const LOOK_MS = 250;
/** A connection that takes nothing for so long is given up, in milliseconds. */
export const STALL_MS = 60_000;

/** Whom to wait for. */
export interface PatienceOptions {
  /** What the kernel knows of the connection; undefined where it is not known. */
  readonly facts: () => ConnectionFacts | undefined;
  /** Bytes that the kernel was not given yet. */
  readonly unwritten: () => number;
  /** How long to wait once all is taken, in milliseconds. */
  readonly graceMs: number;
  /** How long it may take nothing, in milliseconds; {@link STALL_MS} unless a test says otherwise. */
  readonly stallMs?: number;
  /** Called when the wait is over: all was taken and the grace has passed, or nothing is taken any more. */
  readonly over: (taken: boolean) => void;
}

/**
 * Waits for an end that takes what it was sent: a slow one as long as it takes anything within a minute, and the grace
 * from when it has taken all.
 *
 * Invariant: a timer is set until it is over or disposed of.
 */
export class Patience implements Disposable {
  readonly #options: PatienceOptions;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #progress = NaN;
  #sinceMs = performance.now();
  #takenMs: number | undefined;

  /** Begins to wait. */
  constructor(options: PatienceOptions) {
    this.#options = options;
    this.#timer = setTimeout(() => this.#look());
  }

  /** Waits no more. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #look(): void {
    const { facts, unwritten, graceMs, stallMs = STALL_MS, over } = this.#options;
    const nowMs = performance.now();
    const known = facts();
    const waiting = unwritten() + (known?.unacknowledged ?? 0);
    if (waiting === 0) {
      this.#takenMs ??= nowMs;
      const restMs = this.#takenMs + graceMs - nowMs;
      if (restMs <= 0) return over(true);
      this.#timer = setTimeout(() => this.#look(), restMs);
      return;
    }
    this.#takenMs = undefined;
    const progress = known?.acknowledged ?? -waiting;
    if (progress !== this.#progress) [this.#progress, this.#sinceMs] = [progress, nowMs];
    if (nowMs - this.#sinceMs >= stallMs) return over(false);
    this.#timer = setTimeout(() => this.#look(), LOOK_MS);
  }
}
