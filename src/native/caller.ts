import type { Core } from "./core.ts";

/** A connection of this process, by its ends. */
export interface CallerEnds {
  /** The caller's address. */
  readonly hostname: string;
  /** The caller's port. */
  readonly port: number;
  /** This end's port. */
  readonly localPort: number;
}

/** How a connection is looked for. */
export interface CallerSearch {
  /**
   * Whether it may be missed rather than mistaken while any other one was reset and is not closed: for a request whose
   * body is unread, for which the server does not look.
   */
  readonly wary: boolean;
}

/**
 * Turns of the event loop in which the server learns that a connection is gone, and says so. Two were enough for
 * thousands of tries, one was not.
 */
const TURNS = 8;

/**
 * A caller's connection, found by its ends.
 *
 * Invariant: the native side holds it while `#handle` is not 0.
 */
export class HeldCaller implements Disposable {
  readonly #core: Core;
  #handle: number;

  private constructor(core: Core, handle: number) {
    this.#core = core;
    this.#handle = handle;
  }

  /**
   * Finds a connection; undefined where there is none or there are two. It is the one on which a request came if that
   * has not been aborted when this ends: a caller that resets a connection may have made another with the same ends, but
   * by then the server knows that the first is gone.
   */
  static async hold(
    core: Core,
    { hostname, port, localPort }: CallerEnds,
    { wary }: CallerSearch,
  ): Promise<HeldCaller | undefined> {
    const host = new TextEncoder().encode(hostname);
    const { guestd_caller_hold: hold } = core.symbols;
    const handle = hold(host, host.length, port, localPort, wary ? 1 : 0);
    if (handle < 0) return undefined;
    const held = new HeldCaller(core, handle);
    for (let turn = 0; turn < TURNS; turn++) {
      const { promise, resolve } = Promise.withResolvers<void>();
      setImmediate(resolve);
      await promise;
    }
    return held;
  }

  /** Its handle, for the one native call that takes it over. */
  use(): number {
    const handle = this.#handle;
    this.#handle = 0;
    return handle;
  }

  /** Lets go of it, unless it was used. */
  [Symbol.dispose](): void {
    if (this.#handle !== 0) this.#core.symbols.guestd_caller_drop(this.use());
  }
}
