/** Time, as the collector needs it. */
export interface Clock {
  /** Milliseconds on a clock that never goes back. */
  readonly nowMs: () => number;
  /** Calls `run` after `ms`; the function it returns takes that back. */
  readonly after: (ms: number, run: () => void) => () => void;
}

/** The clock that wall-clock jumps do not touch; its timers keep no process alive. */
const MONOTONIC: Clock = {
  nowMs: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    Deno.unrefTimer(timer);
    return () => clearTimeout(timer);
  },
};

/**
 * Forgets entries a fixed time after they were given, by one timer for all.
 *
 * Invariant: `#due` is sorted, for every entry has the same time to live and is given "now" on a
 * clock that never goes back; a timer is set exactly while it is not empty.
 */
export class Collector<T> implements Disposable {
  readonly #ttlMs: number;
  readonly #collect: (entry: T) => void;
  readonly #clock: Clock;
  #due: { readonly atMs: number; readonly entry: T }[] = [];
  #disarm: (() => void) | undefined;

  /** Calls `collect` with each entry `ttlMs` after it was given. */
  constructor(ttlMs: number, collect: (entry: T) => void, clock: Clock = MONOTONIC) {
    this.#ttlMs = ttlMs;
    this.#collect = collect;
    this.#clock = clock;
  }

  /** Gives an entry. */
  add(entry: T): void {
    this.#due.push({ atMs: this.#clock.nowMs() + this.#ttlMs, entry });
    if (this.#disarm === undefined) this.#arm();
  }

  /** Collects nothing any more. */
  [Symbol.dispose](): void {
    this.#disarm?.();
    this.#disarm = undefined;
    this.#due = [];
  }

  #arm(): void {
    const [first] = this.#due;
    if (first === undefined) return;
    const waitMs = Math.max(first.atMs - this.#clock.nowMs(), 0);
    this.#disarm = this.#clock.after(waitMs, () => this.#sweep());
  }

  #sweep(): void {
    this.#disarm = undefined;
    const now = this.#clock.nowMs();
    const found = this.#due.findIndex(({ atMs }) => atMs > now);
    const due = this.#due.splice(0, found === -1 ? this.#due.length : found);
    for (const { entry } of due) this.#collect(entry);
    this.#arm();
  }
}
