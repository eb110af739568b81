import { BodyLost } from "./body_lost.ts";

/** How often the bodies that arrive are looked at while others wait, in milliseconds. */
const PACE_MS = 1000;
/** How much of a body must have come from one look to the next, in bytes. One that brings less twice running is given up. */
const PACE_BYTES = 128 * 1024;
/** A look that comes later than this judges nobody: the daemon was busy itself, or its guest frozen. */
const LATE_MS = 1.5 * PACE_MS;

/** What the memory of bodies is made with. */
export interface BodyMemoryOptions {
  /** What the bodies reserve together, in bytes: at least as much as the largest of them. */
  readonly bytes: number;
  /** Collects what used bodies left behind. */
  readonly collect?: (() => void) | undefined;
  /** So many bytes of used bodies are collected before the next one is used. */
  readonly collectBytes: number;
  /** Calls `look` after so many milliseconds; a timer unless a test keeps the time. */
  readonly later?: (look: () => void, ms: number) => void;
}

/** A place that somebody waits for. */
interface Waiting {
  readonly place: BodyPlace;
  readonly enter: () => void;
}

/**
 * The memory of large bodies that are read whole. However many there are, they reserve no more than `bytes`; for whom there
 * is none, waits in the order of asking, and its bytes wait in the kernel's socket.
 *
 * Invariants: `#free` is `bytes` less what all places reserve, and never negative. A place reserves as much as its body can
 * become from the moment when it is let in, so that none waits for another in a circle; once the body is complete, it
 * reserves what came. None keeps others waiting for ever: a body that arrives keeps a pace or is given up, and one that is
 * complete is soon used.
 */
export class BodyMemory {
  readonly #collect: () => void;
  readonly #collectBytes: number;
  readonly #later: (look: () => void, ms: number) => void;
  readonly #arriving = new Set<BodyPlace>();
  readonly #waiting: Waiting[] = [];
  #free: number;
  #used = 0;
  #watching = false;

  /** Memory of which nothing is reserved. */
  constructor({ bytes, collect = (): void => {}, collectBytes, later = timer }: BodyMemoryOptions) {
    this.#free = bytes;
    this.#collect = collect;
    this.#collectBytes = collectBytes;
    this.#later = later;
  }

  /**
   * A place for a body that can become `mostBytes`, once there is room. `giveUp` is called when it keeps others waiting:
   * nothing is reserved for it from then on.
   */
  async place(mostBytes: number, giveUp: () => void): Promise<BodyPlace> {
    const place = new BodyPlace(mostBytes, giveUp, this);
    if (this.#waiting.length === 0 && mostBytes <= this.#free) {
      this.#letIn(place);
    } else {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.push({ place, enter: resolve });
      this.#watch();
      await promise;
    }
    return place;
  }

  /** For {@link BodyPlace}: its body is complete, and may be used when this ends. */
  async complete(place: BodyPlace): Promise<void> {
    this.#arriving.delete(place);
    this.reserve(place, place.received);
    const used = this.#used;
    this.#used += place.received;
    if (used < this.#collectBytes) return;
    this.#used = place.received;
    // Not before those who used the last ones have returned; and who wants little gets its turn in between.
    await new Promise((resolve) => setTimeout(resolve, 0));
    this.#collect();
  }

  /** For {@link BodyPlace}: it reserves `bytes` from now on, and lets in those for whom there is room then. */
  reserve(place: BodyPlace, bytes: number): void {
    this.#free += place.reserved - bytes;
    place.reserved = bytes;
    if (bytes === 0) this.#arriving.delete(place);
    for (let [first] = this.#waiting; first !== undefined; [first] = this.#waiting) {
      if (first.place.mostBytes > this.#free) return;
      this.#waiting.shift();
      this.#letIn(first.place);
      first.enter();
    }
  }

  #letIn(place: BodyPlace): void {
    place.reserved = place.mostBytes;
    this.#free -= place.mostBytes;
    this.#arriving.add(place);
  }

  /** Looks for bodies that stall, as long as somebody waits. */
  #watch(): void {
    if (this.#watching) return;
    for (const place of this.#arriving) place.mark();
    this.#lookLater();
  }

  #lookLater(): void {
    this.#watching = true;
    const now = performance.now();
    this.#later(() => this.#look(performance.now() - now), PACE_MS);
  }

  #look(afterMs: number): void {
    this.#watching = false;
    if (this.#waiting.length === 0) return;
    for (const place of [...this.#arriving]) {
      if (afterMs > LATE_MS) place.mark();
      else if (!place.keepsPace(PACE_BYTES)) place.giveUp();
    }
    if (this.#waiting.length > 0) this.#lookLater();
  }
}

function timer(look: () => void, ms: number): void {
  // A daemon that ends does not wait for it.
  Deno.unrefTimer(setTimeout(look, ms));
}

/** The place of one body in the memory, which alone makes them. */
export class BodyPlace implements Disposable {
  readonly #memory: BodyMemory;
  readonly #onGivenUp: () => void;
  /** As much as the body can become, in bytes. */
  readonly mostBytes: number;
  /** What has come of it, in bytes. */
  received = 0;
  /** For the memory: what is set aside, in bytes. */
  reserved = 0;
  #marked = 0;
  #slow = 0;
  #givenUp = false;

  /** A place that reserves nothing yet. */
  constructor(mostBytes: number, onGivenUp: () => void, memory: BodyMemory) {
    this.mostBytes = mostBytes;
    this.#onGivenUp = onGivenUp;
    this.#memory = memory;
  }

  /** Throws {@link BodyLost} once the body was given up. */
  check(): void {
    if (this.#givenUp) throw new BodyLost("The body stalled, and others waited for its memory.");
  }

  /** The body is complete, nothing is reserved for more; it may be used when this ends. */
  complete(): Promise<void> {
    return this.#memory.complete(this);
  }

  /** Nothing is reserved for it any more. */
  [Symbol.dispose](): void {
    this.#memory.reserve(this, 0);
  }

  /** For the memory: the pace counts from here. */
  mark(): void {
    this.#marked = this.received;
    this.#slow = 0;
  }

  /** For the memory: whether at least `bytes` came since it was asked last, or the time before. */
  keepsPace(bytes: number): boolean {
    this.#slow = this.received - this.#marked < bytes ? this.#slow + 1 : 0;
    this.#marked = this.received;
    return this.#slow < 2;
  }

  /** For the memory: it keeps others waiting. */
  giveUp(): void {
    this.#givenUp = true;
    this[Symbol.dispose]();
    this.#onGivenUp();
  }
}
