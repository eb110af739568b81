/** One limit of the protocol. */
export interface LimitRow {
  /** Its value in a daemon that was not told otherwise. */
  readonly value: number;
  /** The smallest and the largest value that it can be given. */
  readonly range: readonly [number, number];
  /** What it limits, in one sentence that names its unit. */
  readonly purpose: string;
}

/** 256 MiB: what is held in memory, and handed to the native core as a 32-bit length. */
const MAX_HELD_BYTES = 0x1000_0000;
/** JavaScript's timers overflow beyond 2^31 milliseconds. */
const MAX_SECS = 2_000_000;
/** Seconds, where no time at all would make no sense. */
const SHORTEST_SECS = 0.001;

/** All limits under their wire names, in the order of the protocol; `_secs` may have fractions. */
export const LIMITS = {
  max_body_bytes: {
    value: 536_870_912,
    range: [1, Number.MAX_SAFE_INTEGER],
    purpose: "Bytes of a request body: start, file write, tar upload.",
  },
  max_output_bytes: {
    value: 8_388_608,
    range: [1, MAX_HELD_BYTES],
    purpose: "Bytes captured of each output stream of a command; more sets `truncated`.",
  },
  max_stdin_write_bytes: {
    value: 1_048_576,
    range: [1, MAX_HELD_BYTES],
    purpose: "Bytes of one decoded stdin write.",
  },
  stdin_write_timeout_secs: {
    value: 5,
    range: [SHORTEST_SECS, MAX_SECS],
    purpose: "Seconds that a stdin write may wait for the child to read.",
  },
  max_tar_members: {
    value: 100_000,
    range: [1, 0xffff_ffff],
    purpose: "Members of a tar archive, in both directions.",
  },
  max_tar_bytes: {
    value: 8_589_934_592,
    range: [1, Number.MAX_SAFE_INTEGER],
    purpose: "Bytes of a tar archive, in both directions.",
  },
  stream_replay_bytes: {
    value: 1_048_576,
    range: [1, MAX_HELD_BYTES],
    purpose: "Bytes of output that a stream can replay.",
  },
  sse_keepalive_secs: {
    value: 15,
    range: [SHORTEST_SECS, MAX_SECS],
    purpose: "Seconds without an event after which a stream sends a keepalive.",
  },
  output_linger_secs: {
    value: 5,
    range: [0, MAX_SECS],
    purpose: "Seconds that output pipes may stay open after a command's exit.",
  },
  exec_ttl_secs: {
    value: 900,
    range: [0, MAX_SECS],
    purpose: "Seconds that an acked exec is kept.",
  },
  kill_grace_secs: {
    value: 10,
    range: [0, MAX_SECS],
    purpose: "Seconds between SIGTERM and SIGKILL.",
  },
  max_drain_bytes: {
    value: 65_536,
    range: [0, Number.MAX_SAFE_INTEGER],
    purpose: "Bytes that a refused request may still send for its connection to be kept.",
  },
} as const satisfies Record<string, LimitRow>;

/** Values of the limits; the schema document publishes those in force. */
export type Limits = { readonly [K in keyof typeof LIMITS]: number };

/** The variable that sets a limit. */
export function limitVariable(name: string): string {
  return `GUESTD_${name.toUpperCase()}`;
}

/** The sentence about what is larger than a limit allows, which is `bytes` of it. */
export function exceeds(what: string, bytes: number, limit: keyof Limits): string {
  return `${what} exceeds ${bytes} bytes (${limitVariable(limit)})`;
}

/** The values of a daemon that was not told otherwise. */
export const DEFAULT_LIMITS: Limits = limitsBy((_name, { value }) => value);

/** A value for each limit. */
export function limitsBy(valueOf: (name: string, row: LimitRow) => number): Limits {
  const values = Object.entries(LIMITS).map(([name, row]) => [name, valueOf(name, row)]);
  return Object.fromEntries(values) as Limits;
}
