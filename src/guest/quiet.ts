/** After so long without a request, twice as long at most, the daemon counts as quiet, in milliseconds. */
const QUIET_MS = 500;
/** So many requests must have gone by since the last time to make it worth while. */
const BURST = 200;

/** V8's collector, where the launcher has exposed it. */
type Collect = (options: { readonly type: "major"; readonly execution: "async" }) => Promise<void>;

/**
 * Gives memory back once a burst of requests is over, and once the start is: nothing else does in a
 * daemon that nobody calls, for V8 and the allocator collect when they are asked for more.
 *
 * Invariant: a timer is set exactly while requests were noted that no trim has followed yet.
 */
export class Quiet implements Disposable {
  readonly #trim: () => void;
  #requests = BURST;
  #noted = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Calls `trim` whenever it is quiet after a burst; the start counts as one. */
  constructor(trim: () => void) {
    this.#trim = trim;
    this.#arm();
  }

  /** A request has come. */
  note(): void {
    this.#noted = true;
    this.#requests++;
    if (this.#timer === undefined && this.#requests >= BURST) this.#arm();
  }

  /** Trims nothing any more. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#requests = -Infinity;
  }

  #arm(): void {
    this.#timer = setTimeout(() => this.#look(), QUIET_MS);
    Deno.unrefTimer(this.#timer);
  }

  #look(): void {
    this.#timer = undefined;
    if (this.#noted) {
      this.#noted = false;
      this.#arm();
      return;
    }
    this.#requests = 0;
    const { gc } = globalThis as { gc?: Collect };
    const collected = gc?.({ type: "major", execution: "async" }) ?? Promise.resolve();
    collected.then(this.#trim, this.#trim);
  }
}
