import { nullable, object, orNull } from "./object.ts";
import { bool, choice, digits64, int32, type Schema, text, uint64 } from "./schema.ts";

/** Where to resume a stream. */
export class StreamQuery extends object({
  /** Byte offset to resume from; absent means 0. Beyond the total: waits, or `exit` at once. */
  offset: orNull(digits64(0n)),
}) {}

/** Which of the child's streams a chunk came from; both share one offset space. */
export type StreamKind = "stdout" | "stderr";

/** Schema of {@link StreamKind}. */
export const STREAM_KIND: Schema<StreamKind> = choice(["stdout", "stderr"], "StreamKind");

/** A chunk of output. The next offset is this one plus the length of the decoded bytes. */
export class OutputEvent extends object({
  /** Offset of the chunk's first byte in the space that both streams share. */
  offset: uint64(),
  /** Stream of the chunk. */
  stream: STREAM_KIND,
  /** Base64 of the chunk's bytes: standard alphabet, padded. */
  output: text(),
}) {}

/** Bytes in [from, to) are gone: they left the replay window before they were read. */
export class GapEvent extends object({
  /** First byte that is gone. */
  from: uint64(),
  /** First byte that is not. */
  to: uint64(),
}) {}

/** The last event. A body that ends without it means that the connection failed. */
export class ExitEvent extends object({
  /** Exit code; null when a signal killed the child. */
  exit_code: nullable(int32()),
  /** Signal that killed the child, when one did. */
  signal: nullable(int32()),
  /** Whether captured output was cut at `max_output_bytes`. */
  truncated: bool(),
  /** Whether the linger deadline passed with the output pipes still open. */
  writers_may_be_alive: bool(),
  /** Bytes published in all. */
  offset: uint64(),
}) {}
