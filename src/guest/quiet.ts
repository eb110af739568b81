/** After so long without a request, twice as long at most, the daemon counts as quiet, in milliseconds. */
const QUIET_MS = 500;
/**
 * After so long without such a pause, or since the last try, it is tried all the same, in milliseconds: somebody may ask for
 * health all the time, and what was in use then may be free by now.
 */
const BUSY_MS = 5000;
/** So many requests since memory was last given back make it worth while again. */
const BURST = 200;
/** So much more memory than when it was last given back makes it worth while, too, in bytes: a large request leaves that. */
const GROWN_BYTES = 4 * 1024 * 1024;
/** And so much more than the least that ever was in use, then. */
const BUSY_BYTES = 8 * 1024 * 1024;

/** V8's collector, where the launcher has exposed it. */
type Collect = (options: {
  readonly type: "major";
  readonly execution: "async" | "sync";
  readonly flavor: "regular" | "last-resort";
}) => Promise<void> | undefined;

/** Frees what is garbage before it returns: for who is about to need much. Takes some milliseconds. */
export function collectNow(): void {
  const { gc } = globalThis as { gc?: Collect };
  gc?.({ type: "major", execution: "sync", flavor: "regular" });
}

/** What is done when it is quiet. */
export interface QuietOptions {
  /** Memory that is the daemon's own, in bytes. */
  readonly ownBytes: () => number;
  /** Gives back what is free of it. */
  readonly trim: () => void;
}

/**
 * Gives memory back once a burst of requests or a large one is over, and once the start is: nothing
 * else does in a daemon that nobody calls, for V8 and the allocator collect when they are asked for
 * more.
 *
 * Invariant: a timer is set exactly while requests were noted that no look has followed yet, or, where much is in use, no
 * try (`#owed`);
 * `#kept` is the memory that was in use when some was last given back in quiet, `#least` the least that ever was: who holds
 * what is between them may have left since.
 */
export class Quiet implements Disposable {
  readonly #options: QuietOptions;
  #requests = BURST;
  #noted = false;
  #owed = false;
  #triedMs = performance.now();
  #kept = Infinity;
  #least = Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  /** Looks whenever it is quiet, and gives back what there is to give; the start counts as a burst. */
  constructor(options: QuietOptions) {
    this.#options = options;
    this.#arm();
  }

  /** A request has come or was answered. */
  note(): void {
    this.#noted = true;
    this.#owed = true;
    this.#requests++;
    if (this.#timer === undefined) this.#arm();
  }

  /** Gives nothing back any more. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#closed = true;
  }

  #arm(): void {
    if (this.#closed || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => this.#look(), QUIET_MS);
    Deno.unrefTimer(this.#timer);
  }

  #look(): void {
    this.#timer = undefined;
    const nowMs = performance.now();
    const isBusy = this.#noted;
    this.#noted = false;
    const own = this.#options.ownBytes();
    const isMuch = own >= this.#least + BUSY_BYTES;
    if (!isBusy && (this.#requests >= BURST || own >= this.#kept + GROWN_BYTES)) {
      // What cannot be given back now is there to be given back the next time.
      this.#giveBack().catch(() => {});
    } else if (this.#owed && isMuch && nowMs - this.#triedMs >= BUSY_MS) {
      this.#collect(isBusy ? "regular" : "last-resort").catch(() => {});
    }
    if (isBusy || this.#owed && isMuch) this.#arm();
  }

  async #giveBack(): Promise<void> {
    this.#requests = 0;
    const enough = this.#kept + GROWN_BYTES;
    this.#kept = await this.#collect("regular");
    // Dear, for it collects several times, but the other leaves large things for seconds or for ever.
    if (this.#kept < enough) return;
    this.#kept = await this.#collect("last-resort");
    // What somebody still held then may be free a while later, and nobody calls to have it tried again.
    this.#owed = this.#kept >= enough;
    this.#arm();
  }

  /** How much is in use then, in bytes. */
  async #collect(flavor: "regular" | "last-resort"): Promise<number> {
    this.#triedMs = performance.now();
    this.#owed = false;
    const { gc } = globalThis as { gc?: Collect };
    await gc?.({ type: "major", execution: "async", flavor });
    if (this.#closed) return Infinity;
    this.#options.trim();
    const own = this.#options.ownBytes();
    this.#least = Math.min(this.#least, own);
    this.#kept = Math.min(this.#kept, own);
    return own;
  }
}
