/** So many go on in one turn of the event loop: what else happens in the daemon waits for no more. */
const PER_TURN = 2;
/** Every so many turns of it: a command's start and end take several themselves, and an empty one costs microseconds. */
const EVERY = 3;

/**
 * Turns of the event loop, for tunnels that move megabytes: however many they are, everybody else is asked in between.
 *
 * Invariant: an immediate is set exactly while somebody waits; `#turns` counts those since some went on.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  #turns = 0;

  /** Calls `go` when it is its turn, never at once. */
  await(go: () => void): void {
    if (this.#waiting.push(go) === 1) setImmediate(this.#take);
  }

  readonly #take = (): void => {
    const ready = ++this.#turns < EVERY ? [] : this.#waiting.splice(0, PER_TURN);
    if (ready.length > 0) this.#turns = 0;
    if (this.#waiting.length > 0) setImmediate(this.#take);
    for (const go of ready) go();
  };
}
