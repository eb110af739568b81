import { BodyLost } from "./body_lost.ts";

/** How often the bodies that arrive are looked at while others wait, in milliseconds, */
const PACE_MS = 1000;
/** and how much must have come of one since, in bytes. One that brings less twice running has stalled. */
const PACE_BYTES = 128 * 1024;
/** A look that comes later than this judges nobody: the daemon was busy itself, or its guest frozen. */
const LATE_MS = 1.5 * PACE_MS;

/** What the memory of bodies is made with. */
export interface BodyMemoryOptions {
  /** What the bodies hold together, in bytes: at least as much as the largest of them. */
  readonly bytes: number;
  /** Collects what bodies left behind that were used, */
  readonly collect?: (() => void) | undefined;
  /** before the next one is used, when they were so many bytes. */
  readonly collectBytes: number;
  /** Calls `look` after so many milliseconds; a timer unless a test keeps the time. */
  readonly later?: (look: () => void, ms: number) => void;
}

/**
 * The memory of large bodies that are read whole. However many there are, they hold no more than `bytes`; for whom there
 * is none, waits in the order of asking, and its bytes wait in the kernel's socket.
 *
 * Invariants: `#free` is `bytes` less what all places hold, and never negative. A place that was let in holds as much as
 * its body can become, so that it asks once and none waits for another in a circle. Somebody waits only while `#busy` is
 * not empty, and none who is busy keeps others waiting for ever: a body that arrives is complete in time, or stalls and
 * from then on holds what has come and no more, and one that is complete is soon used. Where nothing but stalled bodies
 * is left and the first who waits needs their room, those that hold most are given up.
 */
export class BodyMemory {
  readonly #collect: () => void;
  readonly #collectBytes: number;
  readonly #later: (look: () => void, ms: number) => void;
  readonly #busy = new Set<BodyPlace>();
  readonly #stalled = new Set<BodyPlace>();
  readonly #waiting: BodyPlace[] = [];
  #free: number;
  #used = 0;
  #watching = false;

  /** Memory of which nothing is held. */
  constructor({ bytes, collect = (): void => {}, collectBytes, later = timer }: BodyMemoryOptions) {
    this.#free = bytes;
    this.#collect = collect;
    this.#collectBytes = collectBytes;
    this.#later = later;
  }

  /** For {@link BodyPlace}: lets it in at once, where there is room and nobody waits. */
  admit(place: BodyPlace): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#fits(place)) return this.#letIn(place);
    const { promise, ...turn } = Promise.withResolvers<void>();
    place.turn = turn;
    this.#waiting.push(place);
    this.#serve();
    return promise;
  }

  /** For {@link BodyPlace}: its body is complete; when it may be used, undefined for at once. */
  settle(place: BodyPlace): Promise<void> | undefined {
    if (!this.#busy.has(place)) return undefined;
    place.arriving = false;
    this.#hold(place, place.received);
    this.#serve();
    const used = this.#used;
    this.#used += place.received;
    if (used < this.#collectBytes) return undefined;
    this.#used = place.received;
    // Not before those who used the last ones have returned; and who wants little gets its turn in between.
    const { promise, resolve } = Promise.withResolvers<void>();
    setTimeout(() => {
      this.#collect();
      resolve();
    }, 0);
    return promise;
  }

  /** For {@link BodyPlace}: it is needed no longer. */
  leave(place: BodyPlace): void {
    this.#forget(place);
    this.#serve();
  }

  #fits(place: BodyPlace): boolean {
    return place.mostBytes - place.held <= this.#free;
  }

  #hold(place: BodyPlace, bytes: number): void {
    this.#free += place.held - bytes;
    place.held = bytes;
  }

  #letIn(place: BodyPlace): undefined {
    this.#hold(place, place.mostBytes);
    this.#stalled.delete(place);
    this.#busy.add(place);
    place.arriving = true;
    place.mark();
  }

  #forget(place: BodyPlace): void {
    this.#hold(place, 0);
    this.#busy.delete(place);
    this.#stalled.delete(place);
    const at = this.#waiting.indexOf(place);
    if (at !== -1) this.#waiting.splice(at, 1);
  }

  /** Lets in who can be, in their order. */
  #serve(): void {
    for (let [first] = this.#waiting; first !== undefined; [first] = this.#waiting) {
      while (!this.#fits(first) && this.#busy.size === 0) this.#giveUpOneFor(first);
      if (!this.#fits(first)) return this.#watch();
      this.#waiting.shift();
      this.#letIn(first);
      first.turn?.resolve();
    }
  }

  #giveUpOneFor(first: BodyPlace): void {
    const others = [...this.#stalled].filter((place) => place !== first);
    // There are some: a body alone always fits.
    const largest = others.reduce((one, other) => (other.held > one.held ? other : one));
    this.#forget(largest);
    largest.giveUp();
  }

  /** Looks for bodies that stall, as long as somebody waits. */
  #watch(): void {
    if (this.#watching) return;
    for (const place of this.#busy) place.mark();
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
    for (const place of this.#busy) {
      if (afterMs > LATE_MS) place.mark();
      else if (place.arriving && !place.keepsPace(PACE_BYTES)) this.#stall(place);
    }
    this.#lookLater();
    this.#serve();
  }

  #stall(place: BodyPlace): void {
    this.#busy.delete(place);
    this.#stalled.add(place);
    place.arriving = false;
    this.#hold(place, place.received);
  }
}

function timer(look: () => void, ms: number): void {
  // A daemon that ends does not wait for it.
  Deno.unrefTimer(setTimeout(look, ms));
}

/**
 * The place of one body in the memory.
 *
 * Invariant: while `arriving`, as much is held as the body can become; what it has brought beyond what is held is one
 * piece at most, and waits with it.
 */
export class BodyPlace implements Disposable {
  readonly #memory: BodyMemory;
  readonly #onGivenUp: () => void;
  /** As much as the body can become, in bytes. */
  readonly mostBytes: number;
  /** For the memory: what is set aside, in bytes. */
  held = 0;
  /** For the memory: whether the body may come on without asking. */
  arriving = false;
  /** For the memory: how the turn comes or is lost that is waited for. */
  turn: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined;
  #received = 0;
  #marked = 0;
  #slow = 0;
  #givenUp = false;

  /** A place that holds nothing yet. `onGivenUp` ends a reading that is under way. */
  constructor(memory: BodyMemory, mostBytes: number, onGivenUp: () => void) {
    this.#memory = memory;
    this.mostBytes = mostBytes;
    this.#onGivenUp = onGivenUp;
  }

  /** What has come, in bytes. */
  get received(): number {
    return this.#received;
  }

  /** The body has come to `received` bytes: when they may be kept; undefined for at once. Throws {@link BodyLost}. */
  take(received: number): Promise<void> | undefined {
    this.check();
    this.#received = received;
    return this.arriving ? undefined : this.#memory.admit(this);
  }

  /** Throws {@link BodyLost} once the body was given up. */
  check(): void {
    if (this.#givenUp) throw stalled();
  }

  /** The body is complete, nothing is held for more: when it may be used; undefined for at once. */
  settle(): Promise<void> | undefined {
    return this.#memory.settle(this);
  }

  /** Nothing is held for it any more. */
  [Symbol.dispose](): void {
    this.#memory.leave(this);
  }

  /** For the memory: the pace counts from here. */
  mark(): void {
    this.#marked = this.#received;
    this.#slow = 0;
  }

  /** For the memory: whether at least `bytes` came since it was asked last, or the time before. */
  keepsPace(bytes: number): boolean {
    this.#slow = this.#received - this.#marked < bytes ? this.#slow + 1 : 0;
    this.#marked = this.#received;
    return this.#slow < 2;
  }

  /** For the memory: it held this place back too long. */
  giveUp(): void {
    this.#givenUp = true;
    this.turn?.reject(stalled());
    this.#onGivenUp();
  }
}

function stalled(): BodyLost {
  return new BodyLost("The body stalled, and others waited for its memory.");
}
