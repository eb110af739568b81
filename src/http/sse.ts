import { encodeJson } from "../contract/json.ts";
import type { ExitEvent, GapEvent, StreamKind } from "../contract/stream.ts";

/**
 * Headers of a stream's answer: nothing between daemon and client may keep or collect the events.
 */
export const SSE_HEADERS: Readonly<Record<string, string>> = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache",
  "x-accel-buffering": "no",
};

const encoder = new TextEncoder();
const OUTPUT_END = encoder.encode('"}\n\n');
/**
 * The longest `output` frame without its chunk: a uint64 has 20 digits, both kinds have six
 * letters.
 */
const OUTPUT_OVERHEAD =
  `event: output\ndata: {"offset":${2n ** 64n},"stream":"stdout","output":""}\n\n`.length;

/** Bytes that an `output` frame with a chunk of `chunkBytes` takes at most. */
export function outputFrameBound(chunkBytes: number): number {
  return OUTPUT_OVERHEAD + Math.ceil(chunkBytes / 3) * 4;
}

/**
 * Writes an `output` frame into `target` at byte `at` and returns the bytes written. There must be
 * room for {@link outputFrameBound} of the chunk. Some 5 GB/s: head and base64 are encoded apart,
 * which spares the concatenation of one long string.
 */
export function writeOutputFrame(
  target: Uint8Array,
  at: number,
  offset: number | bigint,
  stream: StreamKind,
  chunk: Uint8Array,
): number {
  const bound = outputFrameBound(chunk.length);
  if (target.length - at < bound) {
    throw new RangeError(`Cannot write a frame: ${target.length - at} bytes left, ${bound} needed`);
  }
  const head = `event: output\ndata: {"offset":${offset},"stream":"${stream}","output":"`;
  let end = at + encoder.encodeInto(head, target.subarray(at)).written;
  end += encoder.encodeInto(chunk.toBase64(), target.subarray(end)).written;
  target.set(OUTPUT_END, end);
  return end + OUTPUT_END.length - at;
}

/** A `gap` frame. */
export function gapFrame(gap: GapEvent): Uint8Array<ArrayBuffer> {
  return encoder.encode(
    `event: gap\ndata: ${encodeJson({ from: gap.from, to: gap.to } satisfies GapEvent)}\n\n`,
  );
}

/** The `exit` frame, with all five fields. */
export function exitFrame(exit: ExitEvent): Uint8Array<ArrayBuffer> {
  const { exit_code, signal, truncated, writers_may_be_alive, offset } = exit;
  // By hand, for every command ends with it: numbers, booleans and null read the same in JSON.
  return encoder.encode(
    `event: exit\ndata: {"exit_code":${exit_code},"signal":${signal},"truncated":${truncated},` +
      `"writers_may_be_alive":${writers_may_be_alive},"offset":${offset}}\n\n`,
  );
}

/** A comment that keeps a quiet stream alive. */
export function keepaliveFrame(): Uint8Array<ArrayBuffer> {
  return encoder.encode(":\n\n");
}
