import { decodeBase64 } from "./json.ts";
import {
  BODY,
  dictionary,
  list,
  nullable,
  object,
  optional,
  orFalse,
  orNull,
  withDefault,
} from "./object.ts";
import {
  bool,
  choice,
  int32,
  Mismatch,
  mismatch,
  positiveNumber,
  type Schema,
  text,
  uint32,
} from "./schema.ts";

/** Schema of an `exec_id`. */
export const EXEC_ID: Schema<string> = text({ nonEmpty: true, wellFormed: true, maxBytes: 1024 });

/** Schema of what becomes a C string of a command: an argument, a path, the value of a variable. */
export const C_TEXT: Schema<string> = text({ cString: true });

const NAME_KIND = "a non-empty string without = and NUL";

/** Schema of the name of an environment variable, as execve can carry it. */
export const ENV_NAME: Schema<string> = {
  kind: NAME_KIND,
  json: { type: "string", pattern: "^[^=\\u0000]+$" },
  decode(value: unknown, field: string): string {
    const name = C_TEXT.decode(value, field);
    return name === "" || name.includes("=") ? mismatch(field, NAME_KIND) : name;
  },
};

/**
 * Where an exec is in its life: `running` until the child's exit and its output are published, `exited` while the output
 * waits for the ack, `acked` until the entry is collected. A killed or timed-out exec ends as `exited` too.
 */
export type Phase = "running" | "exited" | "acked";

/** Schema of {@link Phase}. */
export const PHASE: Schema<Phase> = choice(["running", "exited", "acked"], "Phase");

/** Starts a command. Unknown fields are ignored; null is accepted only where it is listed. */
export class StartRequest extends object({
  /** Idempotency key minted by the client, at most 1024 bytes of UTF-8. */
  exec_id: EXEC_ID,
  /** The argument list; with `shell` a single script, and [] is the empty script. */
  command: list(C_TEXT),
  /** Whether `command` is a script for `/bin/sh -c`. */
  shell: orFalse(),
  /** Working directory; null means the daemon's own. */
  cwd: orNull(C_TEXT),
  /** Laid over the base environment of the run hook. */
  env: withDefault(dictionary(C_TEXT, ENV_NAME), new Map(), {}),
  /** Numeric uid to demote to; null means the daemon's own. */
  user: orNull(uint32()),
  /** Numeric gid. Without it the primary group of `user` in the passwd file, else gid = uid. */
  group: orNull(uint32()),
  /** Wall-clock budget in seconds, any positive finite number. Ends with the child's exit. */
  timeout_sec: orNull(positiveNumber()),
  /** Whether the child gets a writable stdin. */
  stdin: orFalse(),
  /** Whether the group gets SIGTERM, then SIGKILL, once the child's exit is seen. */
  reap_group_on_exit: orFalse(),
}, {
  if: { properties: { shell: { const: true } }, required: ["shell"] },
  then: { properties: { command: { maxItems: 1 } } },
  else: { properties: { command: { minItems: 1 } } },
}) {}

/** Answer to a start. */
export class StartResponse extends object({
  /** Id of the exec. */
  exec_id: EXEC_ID,
  /** The phase in force: a retried start starts nothing. */
  phase: PHASE,
}) {}

/** The fields of an outcome, in the order in which they are published. */
export const OUTCOME_FIELDS: readonly string[] = [
  "exit_code",
  "signal",
  "stdout",
  "stderr",
  "truncated",
  "writers_may_be_alive",
];

/**
 * State of an exec. The outcome's fields are inlined, all or none: none while it is running and none in a poll after the
 * ack. An ack answers phase `acked` with the outcome.
 */
export class PollResponse extends object({
  /** Id of the exec. */
  exec_id: EXEC_ID,
  /** Phase of the exec. */
  phase: PHASE,
  /** Null when a signal killed the child. */
  exit_code: optional(nullable(int32())),
  /** Signal that killed the child, when one did. */
  signal: optional(nullable(int32())),
  /**
   * Captured standard output, decoded as UTF-8 with U+FFFD for each bad sequence, a BOM kept; the exact bytes are on the
   * stream.
   */
  stdout: optional(text()),
  /** Captured standard error, decoded in the same way. */
  stderr: optional(text()),
  /** Whether either stream hit `max_output_bytes` raw bytes. */
  truncated: optional(bool()),
  /** Whether the linger deadline passed with the output pipes still open. */
  writers_may_be_alive: optional(bool()),
}, {
  dependentRequired: Object.fromEntries(
    OUTCOME_FIELDS.map((name) => [name, OUTCOME_FIELDS.filter((other) => other !== name)]),
  ),
}) {}

/** Sent once no member of the group is left, at the latest once SIGKILL was sent. */
export class KillResponse extends object({
  /** Id of the exec. */
  exec_id: EXEC_ID,
  /** Whether a signal was delivered: false when the group had no live member; zombies are not live. */
  killed: bool(),
}) {}

/** Bytes for a command's stdin, its end, or both. */
export class StdinRequest extends object({
  /** Base64 of the bytes: standard alphabet, padded, no white space. */
  data_b64: orNull(text()),
  /** `eof` closes the pipe after the write. */
  signal: orNull(choice(["eof"])),
}) {}

/** What became of a write to stdin. */
export class StdinResponse extends object({
  /** Id of the exec. */
  exec_id: EXEC_ID,
  /** Number of bytes written. */
  written: uint32(),
  /** Whether this request closed the pipe. */
  eof: bool(),
}) {}

/** Decodes a parsed start body; throws {@link Mismatch}. */
export function decodeStart(body: unknown): StartRequest {
  const request = StartRequest.decode(body, BODY);
  if (request.shell && request.command.length > 1) {
    throw new Mismatch("command must be a single script when shell is true");
  }
  if (!request.shell && request.command.length === 0) {
    throw new Mismatch("command must not be empty when shell is false");
  }
  return request;
}

/** A decoded stdin body. */
export interface StdinWrite {
  /** Bytes to write; null when the request has none. */
  readonly data: Uint8Array<ArrayBuffer> | null;
  /** Whether to close the pipe afterwards. */
  readonly eof: boolean;
}

/** Decodes a parsed stdin body; throws {@link Mismatch}. Its size is looked at elsewhere. */
export function decodeStdin(body: unknown): StdinWrite {
  const { data_b64, signal } = StdinRequest.decode(body, BODY);
  const data = data_b64 === null ? null : decodeBase64(data_b64, "data_b64");
  return { data, eof: signal === "eof" };
}

/** A poll response without its output. */
export type OutcomeHead = Required<Omit<PollResponse, "stdout" | "stderr">>;

/**
 * A {@link PollResponse} with an outcome, cut where its two outputs belong: before stdout, between the two, and behind
 * stderr. The outputs go between as JSON string contents, so that megabytes of them need not be in memory at once.
 */
export function outcomeFrame(head: OutcomeHead): readonly [string, string, string] {
  const { exec_id, phase, exit_code, signal, truncated, writers_may_be_alive } = head;
  const before = JSON.stringify({ exec_id, phase, exit_code, signal });
  const behind = JSON.stringify({ truncated, writers_may_be_alive });
  return [`${before.slice(0, -1)},"stdout":"`, `","stderr":"`, `",${behind.slice(1)}`];
}
