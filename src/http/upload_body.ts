import { bodyTooLarge } from "../contract/refusal.ts";
import type { Sink } from "../files/files.ts";
import { Shares } from "../files/transfers.ts";
import { BodySource } from "./body_source.ts";
import { beginBody, declaredLength } from "./framing.ts";

/** The buffers of one upload: one is filled while the others are written. */
export interface Buffers {
  /** How many there are. */
  readonly count: number;
  /** Size of each, in bytes. */
  readonly bytes: number;
}

/** Buffers for uploads: of 2 MiB in all for each of a few, which is fastest, and of 256 KiB for each beside them. */
export function bufferShares(): Shares<Buffers> {
  return new Shares(4, { count: 4, bytes: 512 * 1024 }, { count: 2, bytes: 128 * 1024 });
}

/** Where a body goes. */
export interface Pouring {
  /** What takes the bytes. */
  readonly sink: Sink;
  /** Most bytes of it. */
  readonly maxBytes: number;
  /** Stops the reading when it is aborted. */
  readonly stopped: AbortSignal;
  /** Where the buffers come from. */
  readonly shares: Shares<Buffers>;
  /** How long nothing may come, in milliseconds. */
  readonly idleMs: number;
}

/** Throws 413 for a body that is declared larger than `maxBytes`. */
export function refuseDeclared(request: Request, maxBytes: number): void {
  if ((declaredLength(request) ?? 0) > maxBytes) throw bodyTooLarge(maxBytes);
}

/**
 * Hands a request's body to a sink, through a few buffers: the bytes are copied into them once, and the client waits while
 * all are on their way. Throws 413 as soon as there are more than `maxBytes`, `BodyLost`, what the sink throws, and the
 * reason of `stopped`; some bytes may then still be on their way.
 */
export async function pourBody(
  request: Request,
  { sink, maxBytes, stopped, shares, idleMs }: Pouring,
): Promise<void> {
  if (request.body === null) return;
  beginBody(request);
  using buffers = shares.take();
  const declared = declaredLength(request);
  // One byte more than a small body has, so that its end is seen at once.
  const bufferBytes = Math.min(buffers.bytes, (declared ?? buffers.bytes) + 1);
  // The client may wait for the answer before it sends on, so whatever goes wrong ends the reading.
  const failed = Promise.withResolvers<never>();
  stopped.addEventListener("abort", () => failed.reject(stopped.reason));
  using source = new BodySource(request, request.body, { bytes: 1, ms: idleMs });
  const written: Promise<Uint8Array<ArrayBuffer>>[] = [];
  async function pour(): Promise<void> {
    let received = 0;
    for (let ended = false; !ended;) {
      const spare = written.length < buffers.count ? undefined : (await written.shift())?.buffer;
      const filled = await source.fill(
        spare ?? new ArrayBuffer(bufferBytes),
        maxBytes - received + 1,
      );
      ended = filled.done;
      received += filled.chunk.length;
      if (received > maxBytes) throw bodyTooLarge(maxBytes);
      if (filled.chunk.length === 0) break;
      const taken = sink.write(filled.chunk);
      taken.catch(failed.reject);
      written.push(taken);
    }
    // Freed now, and not when they are collected: four uploads have 8 MiB.
    for (const { buffer } of await Promise.all(written)) buffer.transfer(0);
  }
  try {
    stopped.throwIfAborted();
    await Promise.race([failed.promise, pour()]);
  } catch (error) {
    source.abandon();
    throw error;
  }
}
