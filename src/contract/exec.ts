import { decodeBase64 } from "./base64.ts";
import { parseJson } from "./json.ts";
import { refusing } from "./refusal.ts";
import { bool, int32, Mismatch, positiveNumber, type Schema, text, uint32 } from "./schema.ts";
import {
  BODY,
  define,
  dictionary,
  list,
  nullable,
  object,
  optional,
  required,
  withDefault,
} from "./schema_composite.ts";

/** Most bytes of UTF-8 in an `exec_id`. */
export const MAX_EXEC_ID_BYTES = 1024;

/** Body of `POST /v1/exec/start`, with the defaults filled in. */
export interface StartRequest {
  /** Idempotency key minted by the caller. */
  readonly exec_id: string;
  /** The argument list, or with `shell` one script. */
  readonly command: readonly string[];
  /** Whether `command` is a script for `/bin/sh -c`. */
  readonly shell: boolean;
  /** Working directory; null means the daemon's own. */
  readonly cwd: string | null;
  /** Overlay over the base environment. */
  readonly env: ReadonlyMap<string, string>;
  /** Numeric uid to demote to; null means the daemon's own. */
  readonly user: number | null;
  /** Numeric gid; null means the user's primary group. */
  readonly group: number | null;
  /** Wall-clock budget in seconds; null means none. */
  readonly timeout_sec: number | null;
  /** Whether the child gets a writable stdin. */
  readonly stdin: boolean;
  /** Whether the group is escalated as soon as the child's exit is seen. */
  readonly reap_group_on_exit: boolean;
}

/** Where an exec is in its life. */
export type Phase = "running" | "exited" | "acked";

/** Answer to `POST /v1/exec/start`. */
export interface StartResponse {
  /** Id of the exec. */
  readonly exec_id: string;
  /** Phase in force, also for a retried start. */
  readonly phase: Phase;
}

/** What a finished command left behind. */
export interface Outcome {
  /** Exit code; null when a signal killed the child. */
  readonly exit_code: number | null;
  /** Number of the signal that killed the child, when one did. */
  readonly signal: number | null;
  /** Captured standard output. */
  readonly stdout: string;
  /** Captured standard error. */
  readonly stderr: string;
  /** Whether either stream was cut at `max_output_bytes`. */
  readonly truncated: boolean;
  /** Whether the linger deadline passed with the output pipes still open. */
  readonly writers_may_be_alive: boolean;
}

/** Answer to poll and ack. The outcome's fields are all there or all missing. */
export interface PollResponse extends Partial<Outcome> {
  /** Id of the exec. */
  readonly exec_id: string;
  /** Phase of the exec. */
  readonly phase: Phase;
}

/** Answer to `POST /v1/exec/{id}/kill`. */
export interface KillResponse {
  /** Id of the exec. */
  readonly exec_id: string;
  /** Whether a signal was delivered. */
  readonly killed: boolean;
}

/** Body of `POST /v1/exec/{id}/stdin`. */
export interface StdinRequest {
  /** Base64 of the bytes to write. */
  readonly data_b64: string | null;
  /** `eof` closes the pipe after the write. */
  readonly signal: string | null;
}

/** Answer to `POST /v1/exec/{id}/stdin`. */
export interface StdinResponse {
  /** Id of the exec. */
  readonly exec_id: string;
  /** Number of bytes written. */
  readonly written: number;
  /** Whether this request closed the pipe. */
  readonly eof: boolean;
}

const execId = text({ nonEmpty: true, wellFormed: true, maxBytes: MAX_EXEC_ID_BYTES });
const anyText = text();
const cText = text({ cString: true });

/** The name of an environment variable, as execve can carry it. */
const ENV_NAME_KIND = "a non-empty string without = and NUL";
const envName: Schema<string> = {
  kind: ENV_NAME_KIND,
  json: { type: "string", pattern: "^[^=\\u0000]+$" },
  decode(value: unknown, field: string): string {
    const name = cText.decode(value, field);
    if (name === "" || name.includes("=")) throw new Mismatch(`${field} must be ${ENV_NAME_KIND}`);
    return name;
  },
};

/** Schema of {@link Phase}. */
export const PHASE: Schema<Phase> = define(
  "Phase",
  "Where an exec is in its life: `running` until the child's exit and its output are published, " +
    "`exited` while the output waits for the ack, `acked` until the entry is collected. " +
    "A killed or timed-out exec ends as `exited` too.",
  text({ choices: ["running", "exited", "acked"] }) as Schema<Phase>,
);

/** Schema of {@link StartRequest}. */
export const START_REQUEST: Schema<StartRequest> = define(
  "StartRequest",
  "Starts a command. Unknown fields are ignored; null is accepted only where it is listed.",
  object<StartRequest>({
    exec_id: required(
      execId,
      `Idempotency key minted by the caller, at most ${MAX_EXEC_ID_BYTES} bytes of UTF-8.`,
    ),
    command: required(
      list(cText),
      "The argument list; with `shell` a single script, and [] is the empty script.",
    ),
    shell: withDefault(bool(), () => false, false, "Run `command` by `/bin/sh -c`."),
    cwd: withDefault(nullable(cText), () => null, null, "Null means the daemon's own."),
    env: withDefault(
      dictionary(cText, envName),
      () => new Map(),
      {},
      "Laid over the base environment of the run hook.",
    ),
    user: withDefault(nullable(uint32()), () => null, null, "Numeric uid to demote to."),
    group: withDefault(
      nullable(uint32()),
      () => null,
      null,
      "Numeric gid. Without it the primary group of `user` in the passwd file, else gid = uid.",
    ),
    timeout_sec: withDefault(
      nullable(positiveNumber()),
      () => null,
      null,
      "Wall-clock budget in seconds, any positive finite number. Ends with the child's exit.",
    ),
    stdin: withDefault(bool(), () => false, false, "Whether the child gets a writable stdin."),
    reap_group_on_exit: withDefault(
      bool(),
      () => false,
      false,
      "Whether the group gets SIGTERM, then SIGKILL, once the child's exit is seen.",
    ),
  }, {
    if: { properties: { shell: { const: true } }, required: ["shell"] },
    then: { properties: { command: { maxItems: 1 } } },
    else: { properties: { command: { minItems: 1 } } },
  }),
);

/** Schema of {@link StartResponse}. */
export const START_RESPONSE: Schema<StartResponse> = define(
  "StartResponse",
  "The phase is the one in force: a retried start starts nothing.",
  object<StartResponse>({ exec_id: required(execId), phase: required(PHASE) }),
);

const OUTCOME_FIELDS = [
  "exit_code",
  "signal",
  "stdout",
  "stderr",
  "truncated",
  "writers_may_be_alive",
];

const captured = (stream: string): string =>
  `Captured standard ${stream}, decoded as UTF-8 with U+FFFD for each bad sequence, a BOM kept; ` +
  "the exact bytes are on the stream.";

/** Schema of {@link PollResponse}. */
export const POLL_RESPONSE: Schema<PollResponse> = define(
  "PollResponse",
  "State of an exec. The outcome's fields are inlined, all or none: none while it is running and " +
    "none in a poll after the ack. An ack answers phase `acked` with the outcome.",
  object<PollResponse>({
    exec_id: required(execId),
    phase: required(PHASE),
    exit_code: optional(nullable(int32()), "Null when a signal killed the child."),
    signal: optional(nullable(int32()), "Signal that killed the child, when one did."),
    stdout: optional(anyText, captured("output")),
    stderr: optional(anyText, captured("error")),
    truncated: optional(bool(), "Whether either stream hit `max_output_bytes` raw bytes."),
    writers_may_be_alive: optional(bool(), "Whether the linger deadline passed with open pipes."),
  }, {
    dependentRequired: Object.fromEntries(
      OUTCOME_FIELDS.map((name) => [name, OUTCOME_FIELDS.filter((other) => other !== name)]),
    ),
  }),
);

/** Schema of {@link KillResponse}. */
export const KILL_RESPONSE: Schema<KillResponse> = define(
  "KillResponse",
  "Sent once no member of the group is left, at the latest once SIGKILL was sent.",
  object<KillResponse>({
    exec_id: required(execId),
    killed: required(bool(), "False when the group had no live member; zombies are not live."),
  }),
);

/** Schema of {@link StdinRequest}. */
export const STDIN_REQUEST: Schema<StdinRequest> = define(
  "StdinRequest",
  "Bytes for a command's stdin, its end, or both.",
  object<StdinRequest>({
    data_b64: withDefault(
      nullable(anyText),
      () => null,
      null,
      "Base64 of the bytes: standard alphabet, padded, no white space.",
    ),
    signal: withDefault(
      nullable(text({ choices: ["eof"] })),
      () => null,
      null,
      "`eof` closes the pipe after the write.",
    ),
  }),
);

/** Schema of {@link StdinResponse}. */
export const STDIN_RESPONSE: Schema<StdinResponse> = define(
  "StdinResponse",
  "What became of a write to stdin.",
  object<StdinResponse>({
    exec_id: required(execId),
    written: required(uint32(), "Number of bytes written."),
    eof: required(bool(), "Whether this request closed the pipe."),
  }),
);

/** Decodes a start body; throws the {@link Refusal} `malformed_request`. */
export function decodeStart(bytes: Uint8Array): StartRequest {
  return refusing(() => {
    const request = START_REQUEST.decode(parseJson(bytes, BODY), BODY);
    if (request.shell && request.command.length > 1) {
      throw new Mismatch("command must be a single script when shell is true");
    }
    if (!request.shell && request.command.length === 0) {
      throw new Mismatch("command must not be empty when shell is false");
    }
    return request;
  });
}

/** A decoded stdin body. */
export interface StdinWrite {
  /** Bytes to write; null when the request has none. */
  readonly data: Uint8Array<ArrayBuffer> | null;
  /** Whether to close the pipe afterwards. */
  readonly eof: boolean;
}

/**
 * Decodes a stdin body; throws the {@link Refusal} `malformed_request`. The size is the caller's to
 * check.
 */
export function decodeStdin(bytes: Uint8Array): StdinWrite {
  return refusing(() => {
    const { data_b64, signal } = STDIN_REQUEST.decode(parseJson(bytes, BODY), BODY);
    return {
      data: data_b64 === null ? null : decodeBase64(data_b64, "data_b64"),
      eof: signal === "eof",
    };
  });
}
