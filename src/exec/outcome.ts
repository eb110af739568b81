import { outcomeFrame, type OutcomeHead } from "../contract/outcome.ts";
import type { NativeExec } from "../native/exec.ts";

/**
 * The text of a poll response with its outcome, piece by piece: captured output is decoded as
 * UTF-8 (U+FFFD for each bad sequence, a BOM kept) and escaped on the way.
 */
export function* outcomePieces(head: OutcomeHead, exec: NativeExec): Generator<string> {
  const [before, between, behind] = outcomeFrame(head);
  yield before;
  yield* escaped(exec, 0);
  yield between;
  yield* escaped(exec, 1);
  yield behind;
}

/** A captured stream as the contents of a JSON string. */
function* escaped(exec: NativeExec, stream: 0 | 1): Generator<string> {
  let decoder: TextDecoder | undefined;
  for (let offset = 0;;) {
    const piece = exec.output(stream, offset);
    if (piece.length === 0 && decoder === undefined) return;
    decoder ??= new TextDecoder("utf-8", { ignoreBOM: true });
    const count = piece.length;
    offset += count;
    const text = decoder.decode(piece, { stream: count > 0 });
    if (text !== "") yield JSON.stringify(text).slice(1, -1);
    if (count === 0) return;
  }
}
