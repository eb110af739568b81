/** One stream of a command's output, between its connection and its reader. */

/**
 * Keeps at most about `bufferBytes` for its reader; what comes after that waits. Invariant: `#room` is there while
 * somebody waits to write, and the queue is then full.
 */
export class OutputPipe {
  /** The reader's side. */
  readonly readable: ReadableStream<Uint8Array<ArrayBuffer>>;
  /** Resolves when the end has come and the reader has taken everything, or wants no more. */
  readonly drained: Promise<void>;
  readonly #bufferBytes: number;
  readonly #isDrained: () => void;
  #controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined;
  #room: (() => void) | undefined;
  #ended = false;

  /** With no room for anything, all that comes is dropped. */
  constructor(bufferBytes: number) {
    this.#bufferBytes = bufferBytes;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.drained = promise;
    this.#isDrained = resolve;
    this.readable = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start: (controller) => {
        this.#controller = controller;
      },
      pull: () => this.#pulled(),
      cancel: () => this.drop(),
    }, new ByteLengthQueuingStrategy({ highWaterMark: Math.max(bufferBytes, 1) }));
    if (bufferBytes === 0) this.drop();
  }

  /** Hands bytes over; resolves when more may come. */
  async write(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    if (this.#controller === undefined) return;
    this.#controller.enqueue(bytes);
    if ((this.#controller.desiredSize ?? 0) > 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#room = resolve;
    await promise;
  }

  /** Nothing comes any more. The reader is told so behind the last bytes. */
  end(): void {
    this.#ended = true;
    this.#pulled();
  }

  /** The reader gets what there is not any more, but this error. */
  fail(error: unknown): void {
    this.#controller?.error(error);
    this.drop();
  }

  /** Nobody reads any more: what comes is dropped. */
  drop(): void {
    this.#controller = undefined;
    this.#isDrained();
    this.#room?.();
  }

  #pulled(): void {
    const free = this.#controller?.desiredSize ?? 0;
    if (free > 0) {
      this.#room?.();
      this.#room = undefined;
    }
    // Once it is closed a stream does not tell what was read: so that comes last.
    if (this.#ended && free === this.#bufferBytes) {
      this.#controller?.close();
      this.#controller = undefined;
      this.#isDrained();
    }
  }
}
