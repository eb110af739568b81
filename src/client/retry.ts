/** When to try again after a connection failed. */

import { ConnectionLost, Unreachable } from "./errors.ts";

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 2_000;

/**
 * A row of failures without an answer between them. The first new try is made at once, for who is back within 100 ms
 * has lost nothing of a stream; the pauses then double from 20 ms to 2 s, each shortened by up to half at random.
 */
export class Retry {
  readonly #forMs: number;
  readonly #reached: () => boolean;
  #since: number | undefined;
  #pauseMs = 0;

  /**
   * Tries again for this many milliseconds since the first failure. A guest that cannot be reached is tried again only
   * where it was `reached` before: else its address is wrong.
   */
  constructor(forMs: number, reached: () => boolean) {
    this.#forMs = forMs;
    this.#reached = reached;
  }

  /** An answer came: the next failure is the first of another row. */
  succeeded(): void {
    this.#since = undefined;
    this.#pauseMs = 0;
  }

  /**
   * Waits until the next try. Throws `error` where it is no failure of the connection, or where the time is over, and
   * the signal's reason when that aborts.
   */
  async failed(error: unknown, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const lost = error instanceof ConnectionLost ||
      (error instanceof Unreachable && this.#reached());
    if (!lost) throw error;
    const now = performance.now();
    this.#since ??= now;
    if (now + this.#pauseMs - this.#since >= this.#forMs) throw error;
    const pauseMs = this.#pauseMs * (1 - Math.random() / 2);
    this.#pauseMs = Math.min(Math.max(2 * this.#pauseMs, FIRST_PAUSE_MS), LONGEST_PAUSE_MS);
    if (pauseMs > 0) await pause(pauseMs, signal);
  }
}

/** Resolves after `ms`; rejects with the signal's reason when that aborts. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const aborted = (): void => reject(signal?.reason);
  signal?.addEventListener("abort", aborted, { once: true });
  try {
    if (signal?.aborted) aborted();
    await promise;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", aborted);
  }
}
