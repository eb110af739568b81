/** The longest span that setTimeout takes, in milliseconds. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * Forgets entries a fixed time after they were given, by one timer for all.
 *
 * Invariant: `#due` is sorted, for every entry has the same time to live and is given "now" on a
 * clock that never goes back; a timer is set exactly while it is not empty.
 */
export class Collector<T> implements Disposable {
  readonly #ttlMs: number;
  readonly #collect: (entry: T) => void;
  readonly #now: () => number;
  #due: { readonly atMs: number; readonly entry: T }[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Calls `collect` with each entry `ttlMs` after it was given. `now` is in milliseconds. */
  constructor(
    ttlMs: number,
    collect: (entry: T) => void,
    now: () => number = () => performance.now(),
  ) {
    this.#ttlMs = ttlMs;
    this.#collect = collect;
    this.#now = now;
  }

  /** Gives an entry. */
  add(entry: T): void {
    this.#due.push({ atMs: this.#now() + this.#ttlMs, entry });
    if (this.#timer === undefined) this.#arm();
  }

  /** Collects nothing any more. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#due = [];
  }

  #arm(): void {
    const [first] = this.#due;
    if (first === undefined) return;
    const wait = Math.min(Math.max(first.atMs - this.#now(), 0), MAX_TIMEOUT_MS);
    this.#timer = setTimeout(() => this.#sweep(), wait);
    Deno.unrefTimer(this.#timer);
  }

  #sweep(): void {
    this.#timer = undefined;
    const now = this.#now();
    const found = this.#due.findIndex(({ atMs }) => atMs > now);
    const due = this.#due.splice(0, found === -1 ? this.#due.length : found);
    for (const { entry } of due) this.#collect(entry);
    this.#arm();
  }
}
