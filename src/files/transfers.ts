import { TransferError, TransferStatus } from "../native/transfer.ts";

/**
 * Memory for transfers under way: a few at a time get a large share, and those beside them a small one, so that many do
 * not take all there is. None waits for another, for that may be a slow one.
 *
 * Invariant: `#left` more may have a large share.
 */
export class Shares<T extends object> {
  #left: number;
  readonly #large: T;
  readonly #small: T;

  /** Nobody has a share; `few` may have a large one. */
  constructor(few: number, large: T, small: T) {
    this.#left = few;
    this.#large = large;
    this.#small = small;
  }

  /** A share for a transfer, which gives it back when it ends. */
  take(): T & Disposable {
    if (this.#left === 0) return { ...this.#small, [Symbol.dispose]: () => {} };
    this.#left--;
    let taken = true;
    return {
      ...this.#large,
      [Symbol.dispose]: () => {
        if (taken) this.#left++;
        taken = false;
      },
    };
  }
}

/**
 * What stops one transfer: its client's leaving, and the end of the daemon.
 *
 * Invariant: it listens to the client and to the daemon's end until it is disposed of, so that neither keeps a transfer
 * that is over.
 */
export class Stop implements Disposable {
  readonly #controller = new AbortController();
  readonly #stopped = Promise.withResolvers<never>();
  readonly #client: AbortSignal;
  readonly #daemon: AbortSignal;
  readonly #clientLeft = (): void => this.#abort("the client has left");
  readonly #daemonEnds = (): void => this.#abort("the daemon ends");

  /** Listens to both, of which either may have come already. */
  constructor(client: AbortSignal, daemon: AbortSignal) {
    this.#client = client;
    // Not every transfer races with it all the time.
    this.#stopped.promise.catch(() => {});
    this.#daemon = daemon;
    client.addEventListener("abort", this.#clientLeft);
    daemon.addEventListener("abort", this.#daemonEnds);
    if (client.aborted) this.#clientLeft();
    if (daemon.aborted) this.#daemonEnds();
  }

  /** Aborted, with a {@link TransferError} as its reason, when the transfer is to stop. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** What `pending` gives or throws, unless the transfer is stopped: then it throws the signal's reason, at once. */
  async race<T>(pending: Promise<T>): Promise<T> {
    try {
      return await Promise.race([this.#stopped.promise, pending]);
    } catch (error) {
      // Which of its steps has heard of it first does not matter then.
      this.signal.throwIfAborted();
      throw error;
    }
  }

  /** From now on the client may leave: what was begun with all that it sent is carried out. */
  outliveClient(): void {
    this.#client.removeEventListener("abort", this.#clientLeft);
  }

  /** Listens to nobody any more. */
  [Symbol.dispose](): void {
    this.outliveClient();
    this.#daemon.removeEventListener("abort", this.#daemonEnds);
  }

  #abort(why: string): void {
    this.#controller.abort(new TransferError(TransferStatus.cancelled, `Cannot go on: ${why}`));
    this.#stopped.reject(this.signal.reason);
  }
}
