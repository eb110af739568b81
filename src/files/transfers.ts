/** Transfers under way, so that the end of the daemon ends them. */
export class Transfers {
  readonly #stops = new Set<() => void>();

  /** Notes how to stop a transfer. */
  add(stop: () => void): void {
    this.#stops.add(stop);
  }

  /** Forgets a transfer that has ended. */
  remove(stop: () => void): void {
    this.#stops.delete(stop);
  }

  /** Stops all: downloads are cut, uploads leave nothing. */
  close(): void {
    for (const stop of [...this.#stops]) stop();
  }
}
