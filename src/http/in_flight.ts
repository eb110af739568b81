/**
 * The requests whose answers are not yet sent whole.
 *
 * Invariant: `#count` is the number of promises given to `enter` that have not settled; somebody
 * waits in `#waiting` only while it is not 0.
 */
export class InFlight {
  #count = 0;
  readonly #waiting = new Set<() => void>();

  /** Counts a request until `completed` settles. */
  enter(completed: Promise<void>): void {
    this.#count++;
    const leave = (): void => this.#leave();
    completed.then(leave, leave);
  }

  /** Ends as soon as there are none: at once, if there are none now. */
  async idle(): Promise<void> {
    if (this.#count === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    await promise;
  }

  #leave(): void {
    if (--this.#count > 0) return;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}
