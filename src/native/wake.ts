import type { Symbols } from "./library.ts";

/** Size of an event in the buffer, in bytes: `EVENT_SIZE` in `native/src/wake.rs`. */
const EVENT_BYTES = 24;
const EVENTS = 128;

/** What an event is about: `Kind` in `native/src/wake.rs`. */
export const EventKind = {
  operation: 1,
  published: 2,
  readable: 3,
  orphans: 4,
  spoolFailed: 5,
  connection: 6,
  roll: 7,
} as const;

/** How an operation ended. */
export interface Result {
  /** 0, an errno, or a code of the operation's own. */
  readonly status: number;
  /** The operation's result. */
  readonly value: number;
}

/**
 * Events from the native threads, by one parked call for the whole daemon.
 *
 * Invariant: an operation is in `#operations` from its start until its event; a listener from
 * `listen` until it is removed. An event for somebody who left is dropped.
 */
export class Wake {
  readonly #symbols: Symbols;
  readonly #operations = new Map<number, (result: Result) => void>();
  readonly #listeners = new Map<number, Map<number, () => void>>();
  #spoolFailed: (errno: number) => void = () => {};
  #nextToken = 0;

  /** Events of an opened core. */
  constructor(symbols: Symbols) {
    this.#symbols = symbols;
  }

  /** Takes events until the core is closed. */
  async run(): Promise<void> {
    const buffer = new Uint8Array(EVENTS * EVENT_BYTES);
    const view = new DataView(buffer.buffer);
    for (;;) {
      const count = await this.#symbols.guestd_wait(buffer, buffer.length);
      if (count < 0) return;
      for (let at = 0; at < count * EVENT_BYTES; at += EVENT_BYTES) this.#dispatch(view, at);
    }
  }

  /**
   * Starts an operation and waits for its end. `start` gets the token under which the native side
   * completes it, and answers a negative number if it could not start, which is then the status.
   */
  operation(start: (token: number) => number): Promise<Result> {
    const token = this.#freeToken();
    const { promise, resolve } = Promise.withResolvers<Result>();
    this.#operations.set(token, resolve);
    const started = start(token);
    if (started < 0) {
      this.#operations.delete(token);
      resolve({ status: started, value: 0 });
    }
    return promise;
  }

  /** Calls `listener` at each event of `kind` for `token`. */
  listen(kind: number, token: number, listener: () => void): void {
    let listeners = this.#listeners.get(kind);
    if (listeners === undefined) this.#listeners.set(kind, listeners = new Map());
    listeners.set(token, listener);
  }

  /** Calls `listener` with the errno when captured output begins to stay in memory for want of a file. */
  onSpoolFailed(listener: (errno: number) => void): void {
    this.#spoolFailed = listener;
  }

  /** Takes a listener out. */
  ignore(kind: number, token: number): void {
    this.#listeners.get(kind)?.delete(token);
  }

  #dispatch(view: DataView, at: number): void {
    const kind = view.getUint32(at, true);
    const token = view.getUint32(at + 4, true);
    if (kind === EventKind.spoolFailed) return this.#spoolFailed(token);
    if (kind !== EventKind.operation) {
      try {
        this.#listeners.get(kind)?.get(token)?.();
      } catch (error) {
        // One listener's failure must not leave the daemon deaf.
        reportError(error);
      }
      return;
    }
    const resolve = this.#operations.get(token);
    this.#operations.delete(token);
    const value = view.getInt32(at + 20, true) * 2 ** 32 + view.getUint32(at + 16, true);
    resolve?.({ status: view.getInt32(at + 8, true), value });
  }

  #freeToken(): number {
    do this.#nextToken = (this.#nextToken + 1) >>> 0; while (this.#operations.has(this.#nextToken));
    return this.#nextToken;
  }
}
