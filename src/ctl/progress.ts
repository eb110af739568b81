/** How far a transfer is, on a terminal; nothing anywhere else. */

const EVERY_MS = 200;
const CLEAR = "\r\x1b[K";

/** A line that is written anew, until it is disposed of. */
export class Progress implements Disposable {
  readonly #what: string;
  readonly #total: number | undefined;
  readonly #begun = performance.now();
  readonly #shown: boolean;
  #bytes = 0;
  #lastMs = 0;

  /** Begins one for so many bytes, where that is known. */
  constructor(what: string, total: number | undefined) {
    this.#what = what;
    this.#total = total;
    this.#shown = Deno.stderr.isTerminal();
  }

  /** Passes pieces on and counts them. */
  counted(source: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
    if (!this.#shown) return source;
    return source.pipeThrough(
      new TransformStream({
        transform: (piece, controller) => {
          this.#add(piece.length);
          controller.enqueue(piece);
        },
      }),
    );
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    const now = performance.now();
    if (now - this.#lastMs < EVERY_MS) return;
    this.#lastMs = now;
    const line = progressLine(this.#what, this.#bytes, this.#total, (now - this.#begun) / 1000);
    Deno.stderr.writeSync(new TextEncoder().encode(CLEAR + line));
  }

  /** Takes the line away. */
  [Symbol.dispose](): void {
    if (this.#shown) Deno.stderr.writeSync(new TextEncoder().encode(CLEAR));
  }
}

/** What is done, how fast, and how long it will take. */
export function progressLine(
  what: string,
  bytes: number,
  total: number | undefined,
  seconds: number,
): string {
  const rate = bytes / Math.max(seconds, 0.001);
  const speed = `${mebibytes(bytes)} MiB, ${mebibytes(rate)} MiB/s`;
  if (total === undefined || total === 0) return `${what}: ${speed}`;
  const left = Math.max(0, Math.ceil((total - bytes) / Math.max(rate, 1)));
  return `${what}: ${Math.floor((100 * bytes) / total)} %, ${speed}, ${left} s left`;
}

function mebibytes(bytes: number): string {
  return (bytes / 1024 / 1024).toFixed(1);
}
