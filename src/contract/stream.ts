import { query, type QuerySchema, type QuerySource, uint64Parameter } from "./query.ts";
import { refusing } from "./refusal.ts";
import { bool, int32, type Schema, text, type Uint64, uint64 } from "./schema.ts";
import { define, nullable, object, required } from "./schema_composite.ts";

/** Query of `GET /v1/exec/{id}/stream`. */
export interface StreamQuery {
  /** Byte offset to resume from. */
  readonly offset: bigint;
}

/** Which stream a chunk came from. */
export type StreamKind = "stdout" | "stderr";

/** Data of the event `output`. */
export interface OutputEvent {
  /** Offset of the chunk's first byte in the space that both streams share. */
  readonly offset: Uint64;
  /** Stream of the chunk. */
  readonly stream: StreamKind;
  /** Base64 of the chunk. */
  readonly output: string;
}

/** Data of the event `gap`: the bytes in [from, to) are gone. */
export interface GapEvent {
  /** First byte that is gone. */
  readonly from: Uint64;
  /** First byte that is not. */
  readonly to: Uint64;
}

/** Data of the event `exit`, the last of a stream. */
export interface ExitEvent {
  /** Exit code; null when a signal killed the child. */
  readonly exit_code: number | null;
  /** Signal that killed the child, when one did. */
  readonly signal: number | null;
  /** Whether captured output was cut at `max_output_bytes`. */
  readonly truncated: boolean;
  /** Whether the linger deadline passed with the output pipes still open. */
  readonly writers_may_be_alive: boolean;
  /** Bytes published in all. */
  readonly offset: Uint64;
}

/** Schema of {@link StreamQuery}. */
export const STREAM_QUERY: QuerySchema<StreamQuery> = query<StreamQuery>(
  "StreamQuery",
  "Where to resume a stream.",
  {
    offset: uint64Parameter(
      0n,
      0n,
      "Byte offset to resume from; absent means 0. Beyond the total: waits, or `exit` at once.",
    ),
  },
);

/** Schema of {@link StreamKind}. */
export const STREAM_KIND: Schema<StreamKind> = define(
  "StreamKind",
  "Which of the child's streams a chunk came from; both share one offset space.",
  text({ choices: ["stdout", "stderr"] }) as Schema<StreamKind>,
);

/** Schema of {@link OutputEvent}. */
export const OUTPUT_EVENT: Schema<OutputEvent> = define(
  "OutputEvent",
  "A chunk of output. The next offset is this one plus the length of the decoded bytes.",
  object<OutputEvent>({
    offset: required(uint64()),
    stream: required(STREAM_KIND),
    output: required(text(), "Base64 of the chunk's bytes: standard alphabet, padded."),
  }),
);

/** Schema of {@link GapEvent}. */
export const GAP_EVENT: Schema<GapEvent> = define(
  "GapEvent",
  "Bytes in [from, to) are gone: they left the replay window before they were read.",
  object<GapEvent>({ from: required(uint64()), to: required(uint64()) }),
);

/** Schema of {@link ExitEvent}. */
export const EXIT_EVENT: Schema<ExitEvent> = define(
  "ExitEvent",
  "The last event. A body that ends without it means that the connection failed.",
  object<ExitEvent>({
    exit_code: required(nullable(int32())),
    signal: required(nullable(int32())),
    truncated: required(bool()),
    writers_may_be_alive: required(bool()),
    offset: required(uint64(), "Bytes published in all."),
  }),
);

/** Decodes the query of a stream; throws the `malformed_request` refusal. */
export function decodeStreamQuery(source: QuerySource): StreamQuery {
  return refusing(() => STREAM_QUERY.read(source));
}
