import { outcomeFrame, type OutcomeHead } from "../contract/exec.ts";

/** Where captured output is read: an exec of the core. */
export interface CapturedOutput {
  /** Copies from `offset` of stdout (0) or stderr (1) as much as fits; 0 is the end. */
  output(stream: 0 | 1, offset: number, out: Uint8Array<ArrayBuffer>): number;
}

/**
 * How much captured output is decoded at a time, in bytes. What it escapes to, six times as much at worst, is still no
 * large object to V8: those are freed by a full collection only, and a poll of 16 MiB then cost 23 MiB.
 */
const PIECE_BYTES = 16 * 1024;
/** How much is decoded at first, in bytes: mostly that is all, and large buffers keep the garbage collector busy. */
const FIRST_BYTES = 1024;

/**
 * The text of a poll response with its outcome, piece by piece: captured output is decoded as
 * UTF-8 (U+FFFD for each bad sequence, a BOM kept) and escaped on the way.
 */
export function* outcomePieces(head: OutcomeHead, exec: CapturedOutput): Generator<string> {
  const [before, between, behind] = outcomeFrame(head);
  yield before;
  yield* escaped(exec, 0);
  yield between;
  yield* escaped(exec, 1);
  yield behind;
}

/** A captured stream as the contents of a JSON string. */
function* escaped(exec: CapturedOutput, stream: 0 | 1): Generator<string> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let piece = new Uint8Array(FIRST_BYTES);
  for (let offset = 0;;) {
    const count = exec.output(stream, offset, piece);
    offset += count;
    const text = decoder.decode(piece.subarray(0, count), { stream: count > 0 });
    if (count === FIRST_BYTES) piece = new Uint8Array(PIECE_BYTES);
    if (text !== "") yield JSON.stringify(text).slice(1, -1);
    if (count === 0) return;
  }
}
