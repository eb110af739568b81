/**
 * The limits of the protocol under their wire names; the schema document publishes the values in
 * force.
 */
export interface Limits {
  /** Bytes of a request body: exec start, file write, tar upload on the wire. */
  readonly max_body_bytes: number;
  /** Bytes captured of each output stream; what goes beyond sets `truncated`. */
  readonly max_output_bytes: number;
  /** Bytes of one decoded stdin write. */
  readonly max_stdin_write_bytes: number;
  /** Seconds that a stdin write may wait for the child to read. */
  readonly stdin_write_timeout_secs: number;
  /** Members of a tar archive, in both directions. */
  readonly max_tar_members: number;
  /** Bytes of a tar archive, in both directions. */
  readonly max_tar_bytes: number;
  /** Bytes of the replay window of an output stream. */
  readonly stream_replay_bytes: number;
  /** Seconds without an event after which a stream sends a keepalive. */
  readonly sse_keepalive_secs: number;
  /** Seconds that output pipes may stay open after the exit of the child. */
  readonly output_linger_secs: number;
  /** Seconds that an acked exec is kept. */
  readonly exec_ttl_secs: number;
  /** Seconds between SIGTERM and SIGKILL. */
  readonly kill_grace_secs: number;
  /** Bytes that a refused request may still send for its connection to be kept. */
  readonly max_drain_bytes: number;
}

/** The limits of a daemon that was not told otherwise, in the order of the protocol. */
export const DEFAULT_LIMITS: Limits = {
  max_body_bytes: 536_870_912,
  max_output_bytes: 8_388_608,
  max_stdin_write_bytes: 1_048_576,
  stdin_write_timeout_secs: 5,
  max_tar_members: 100_000,
  max_tar_bytes: 8_589_934_592,
  stream_replay_bytes: 1_048_576,
  sse_keepalive_secs: 15,
  output_linger_secs: 5,
  exec_ttl_secs: 900,
  kill_grace_secs: 10,
  max_drain_bytes: 65_536,
};
