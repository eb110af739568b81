/** What the memory of bodies is made with. */
export interface BodyMemoryOptions {
  /** What the bodies reserve together, in bytes: at least as much as the largest of them. */
  readonly bytes: number;
  /** Collects what used bodies left behind. */
  readonly collect?: (() => void) | undefined;
  /** So many bytes of used bodies are collected before the next one is used. */
  readonly collectBytes: number;
}

/**
 * The memory of large bodies that are read whole. However many there are, they reserve no more than `bytes`; for whom there
 * is none, waits in the order of asking, and its bytes wait in the kernel's socket.
 *
 * Invariants: `#free` is `bytes` less what all places reserve, and never negative. A place reserves as much as its body can
 * become from the moment when it is let in, so that none waits for another in a circle; once the body is complete, it
 * reserves what came. None keeps others waiting for ever: a body keeps its pace, and one that is complete is soon used.
 */
export class BodyMemory {
  readonly #collect: () => void;
  readonly #collectBytes: number;
  readonly #waiting: Waiting[] = [];
  #free: number;
  #used = 0;

  /** Memory of which nothing is reserved. */
  constructor({ bytes, collect = (): void => {}, collectBytes }: BodyMemoryOptions) {
    this.#free = bytes;
    this.#collect = collect;
    this.#collectBytes = collectBytes;
  }

  /** A place for a body that can become `mostBytes`, once there is room. */
  async place(mostBytes: number): Promise<BodyPlace> {
    const { promise, resolve } = Promise.withResolvers<BodyPlace>();
    this.#waiting.push({ mostBytes, enter: resolve });
    this.#letIn();
    return await promise;
  }

  #letIn(): void {
    for (let [first] = this.#waiting; first !== undefined; [first] = this.#waiting) {
      if (first.mostBytes > this.#free) return;
      this.#waiting.shift();
      this.#free -= first.mostBytes;
      first.enter(this.#place(first.mostBytes));
    }
  }

  #place(mostBytes: number): BodyPlace {
    let reserved = mostBytes;
    const reserve = (bytes: number): void => {
      this.#free += reserved - bytes;
      reserved = bytes;
      this.#letIn();
    };
    return {
      complete: async (bytes): Promise<void> => {
        reserve(bytes);
        await this.#complete(bytes);
      },
      [Symbol.dispose]: () => reserve(0),
    };
  }

  async #complete(bytes: number): Promise<void> {
    const used = this.#used;
    this.#used += bytes;
    if (used < this.#collectBytes) return;
    this.#used = bytes;
    // Not before those who used the last ones have returned; and who wants little gets its turn in between.
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.#collect();
  }
}

/** Somebody who waits for a place. */
interface Waiting {
  readonly mostBytes: number;
  readonly enter: (place: BodyPlace) => void;
}

/** The place of one body in the memory; disposed of, it reserves nothing. */
export interface BodyPlace extends Disposable {
  /** The body is complete with so many bytes, and no more is reserved; it may be used when this ends. */
  readonly complete: (bytes: number) => Promise<void>;
}
