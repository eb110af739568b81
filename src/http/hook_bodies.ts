/** How many bodies of hooks may be arriving at a time. */
const MOST = 64;
/** How many of them on one connection: by HTTP/2 hundreds can come with one packet. */
const MOST_OF_ONE = 4;
/** How much of them may be kept together, in bytes. */
const MOST_BYTES = 1024 * 1024;

/** What one is told that has to give way, or is one too many. */
export const TOO_MANY = "Too many hooks are arriving at once.";

/** A hook's body that arrives. */
export interface Arrival extends Disposable {
  /** More of it is kept; this may give up older ones. */
  readonly came: (bytes: number) => void;
}

/** One that is arriving. */
interface Arriving {
  bytes: number;
  readonly peer: string;
  readonly timer: ReturnType<typeof setTimeout>;
  readonly giveUp: (text: string) => void;
}

/**
 * The bodies of hooks that are arriving. Anybody in the guest may send such, without a token: so they have a time, they are
 * few, and where there are too many or too much of them, the oldest gives way. The platform's own comes whole at once.
 *
 * Invariants: `#bytes` is what those in `#arriving` keep, and `#ofPeer` how many of them each has; they are in the order of
 * their coming, and the timer of each is set.
 */
export class HookBodies {
  readonly #ms: number;
  readonly #arriving = new Set<Arriving>();
  readonly #ofPeer = new Map<string, number>();
  #bytes = 0;

  /** None is arriving; each has so many milliseconds. */
  constructor(ms: number) {
    this.#ms = ms;
  }

  /** Whether as many are arriving from `peer` as may. */
  isFullFor(peer: string): boolean {
    return (this.#ofPeer.get(peer) ?? 0) >= MOST_OF_ONE;
  }

  /** One begins to arrive from `peer`. `giveUp` is called when it has to give way, or its time is over. */
  begin(peer: string, giveUp: (text: string) => void): Arrival {
    this.#ofPeer.set(peer, (this.#ofPeer.get(peer) ?? 0) + 1);
    const late = `The body did not come within ${this.#ms / 1000} s.`;
    const timer = setTimeout(() => this.#giveUp(arriving, late), this.#ms);
    // A daemon that ends does not wait for it.
    Deno.unrefTimer(timer);
    const arriving: Arriving = { bytes: 0, peer, timer, giveUp };
    this.#arriving.add(arriving);
    this.#makeRoom();
    return {
      came: (bytes): void => {
        if (!this.#arriving.has(arriving)) return;
        arriving.bytes += bytes;
        this.#bytes += bytes;
        this.#makeRoom();
      },
      [Symbol.dispose]: () => this.#remove(arriving),
    };
  }

  #makeRoom(): void {
    for (const oldest of this.#arriving) {
      if (this.#arriving.size <= MOST && this.#bytes <= MOST_BYTES) return;
      this.#giveUp(oldest, TOO_MANY);
    }
  }

  #giveUp(arriving: Arriving, text: string): void {
    this.#remove(arriving);
    arriving.giveUp(text);
  }

  #remove(arriving: Arriving): void {
    if (!this.#arriving.delete(arriving)) return;
    clearTimeout(arriving.timer);
    this.#bytes -= arriving.bytes;
    const ofPeer = this.#ofPeer.get(arriving.peer) ?? 0;
    if (ofPeer > 1) this.#ofPeer.set(arriving.peer, ofPeer - 1);
    else this.#ofPeer.delete(arriving.peer);
  }
}
