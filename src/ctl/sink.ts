/** guestctl's own stdout and stderr, written fast and in order. */

/** What may wait to be written, in bytes. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
/** What is written at once, in bytes; less than that waits for the next turn of the event loop. */
const BATCH_BYTES = 512 * 1024;

/**
 * Writes what it is given while more comes. A write is done by another thread, which takes longer to wake than to write a
 * piece: so many pieces go in one.
 *
 * Invariant: `#waiting` holds `#bytes` bytes that no write has taken. While there are some a write is under way, which
 * `#writing` is the end of, or `#timer` is set to begin one, or `#failure` holds why there will be none.
 */
export class Sink {
  readonly #target: Pick<typeof Deno.stdout, "write">;
  #waiting: Uint8Array[] = [];
  #bytes = 0;
  #writing: Promise<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failure: { readonly error: unknown } | undefined;

  /** Writes to `target`. */
  constructor(target: Pick<typeof Deno.stdout, "write">) {
    this.#target = target;
  }

  /** Takes bytes; resolves when there is room for more. Rejects where a write has failed, be it of bytes before. */
  async write(bytes: Uint8Array): Promise<void> {
    this.#waiting.push(bytes);
    this.#bytes += bytes.length;
    if (this.#bytes >= BATCH_BYTES) this.#begin();
    else this.#timer ??= setTimeout(() => this.#begin(), 0);
    if (this.#bytes > MAX_WAITING_BYTES) await this.#writing;
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Resolves when all that was taken is written. */
  async flush(): Promise<void> {
    while (this.#bytes > 0 && this.#failure === undefined) {
      this.#begin();
      await this.#writing;
    }
    await this.#writing;
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  #begin(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#failure === undefined) this.#writing ??= this.#writeBatch();
  }

  async #writeBatch(): Promise<void> {
    const bytes = joined(this.#waiting, this.#bytes);
    this.#waiting = [];
    this.#bytes = 0;
    try {
      for (let at = 0; at < bytes.length;) at += await this.#target.write(bytes.subarray(at));
    } catch (error) {
      this.#failure = { error };
    }
    this.#writing = undefined;
    if (this.#bytes > 0) this.#timer ??= setTimeout(() => this.#begin(), 0);
  }
}

function joined(pieces: readonly Uint8Array[], size: number): Uint8Array {
  const [first] = pieces;
  if (first !== undefined && pieces.length === 1) return first;
  const all = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
