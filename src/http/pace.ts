/** The pace that a body has to keep. */
export interface PaceOptions {
  /** How much has to come within `ms`, in bytes. */
  readonly bytes: number;
  /** See `bytes`, in milliseconds. */
  readonly ms: number;
  /** Called when less has come. */
  readonly giveUp: () => void;
}

/** A look that comes so much later than it should counts nothing: the daemon was busy itself, or its guest frozen. */
const LATE = 1.5;

/**
 * Gives up a body that comes too slowly. Only the time in which it is waited for counts, and none in which a disk or the
 * bodies before it are.
 *
 * Invariant: a timer is set until it is disposed of or has given up; `#waitedMs` is how long was waited since `#came` was 0,
 * but for what is waited since `#askedMs`.
 */
export class Pace implements Disposable {
  readonly #options: PaceOptions;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #dueMs = 0;
  #came = 0;
  #waitedMs = 0;
  #askedMs: number | undefined;

  /** Nothing has come, and nothing is waited for. */
  constructor(options: PaceOptions) {
    this.#options = options;
    this.#sleep(options.ms);
  }

  /** Waits for a part of the body. */
  async read<T extends { readonly value?: Uint8Array | undefined }>(
    reading: Promise<T>,
  ): Promise<T> {
    this.#askedMs = performance.now();
    const read = await reading;
    this.#waitedMs += performance.now() - this.#askedMs;
    this.#askedMs = undefined;
    this.#came += read.value?.length ?? 0;
    return read;
  }

  /** Gives nothing up any more. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #sleep(ms: number): void {
    this.#dueMs = performance.now() + ms;
    this.#timer = setTimeout(() => this.#look(), ms);
    // A daemon that ends does not wait for it.
    Deno.unrefTimer(this.#timer);
  }

  #look(): void {
    const { bytes, ms, giveUp } = this.#options;
    const nowMs = performance.now();
    if (this.#came >= bytes || nowMs > this.#dueMs + (LATE - 1) * ms) {
      this.#came = 0;
      this.#waitedMs = 0;
      if (this.#askedMs !== undefined) this.#askedMs = nowMs;
    }
    const waitedMs = this.#waitedMs + (this.#askedMs === undefined ? 0 : nowMs - this.#askedMs);
    if (waitedMs >= ms) giveUp();
    // A timer may be early by part of a millisecond.
    else this.#sleep(Math.max(1, ms - waitedMs));
  }
}
