/** guestctl's own stdout and stderr, written fast and in order. */

/** What may wait to be written, in bytes. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;

/**
 * Writes what it is given while more comes: a write takes a thread's time to come back, so many pieces go in one.
 *
 * Invariant: `#waiting` holds `#bytes` bytes that no write has taken; `#writing` is there while one is under way or to
 * be begun.
 */
export class Sink {
  readonly #target: Pick<typeof Deno.stdout, "write">;
  #waiting: Uint8Array[] = [];
  #bytes = 0;
  #writing: Promise<void> | undefined;

  /** Writes to `target`. */
  constructor(target: Pick<typeof Deno.stdout, "write">) {
    this.#target = target;
  }

  /** Takes bytes; resolves when there is room for more. Rejects where a write has failed. */
  async write(bytes: Uint8Array): Promise<void> {
    this.#waiting.push(bytes);
    this.#bytes += bytes.length;
    this.#writing ??= this.#writeAll();
    this.#writing.catch(() => {});
    if (this.#bytes > MAX_WAITING_BYTES) await this.#writing;
  }

  /** Resolves when all that was taken is written. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const bytes = joined(this.#waiting, this.#bytes);
      this.#waiting = [];
      this.#bytes = 0;
      for (let at = 0; at < bytes.length;) at += await this.#target.write(bytes.subarray(at));
    }
    this.#writing = undefined;
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
