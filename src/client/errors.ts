/**
 * What can go wrong, as classes. All extend {@link GuestError}; what the guest itself refused extends {@link Refused}.
 *
 * @module
 */

import type { ErrorBody, Slug } from "../contract/refusal.ts";

/** Any failure that this library tells of; an aborted call throws its signal's reason instead. */
export class GuestError extends Error {
  /** Makes it with a complete sentence. */
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The guest could not be reached at all: no such host, or nothing listens there. */
export class Unreachable extends GuestError {}

/** The connection failed, or an answer did not come, and trying again for a while did not help. */
export class ConnectionLost extends GuestError {}

/** The guest answered something that the protocol does not have. */
export class ProtocolViolation extends GuestError {}

/** The guest answered with a status of failure. */
export class Refused extends GuestError {
  /** HTTP status of the answer. */
  readonly status: number;
  /** The protocol's error slug, where the answer has one. */
  readonly slug: Slug | undefined;
  /** The answer's prose, for people. */
  readonly detail: string;

  /** Makes the error of one answer to `what`. */
  constructor(what: string, status: number, slug: Slug | undefined, detail: string) {
    // Of files the guest itself says what it could not do.
    super(/^Cannot /.test(detail) ? detail : `Cannot ${what}: ${detail || `status ${status}`}`);
    this.status = status;
    this.slug = slug;
    this.detail = detail;
  }
}

/** 401: the token is not the guest's. */
export class Unauthorized extends Refused {}

/** 503: no token is installed yet, so the guest refuses all work. */
export class NotBootstrapped extends Refused {}

/** 404 `unknown_exec`: no command under the id, or it was forgotten some time after its ack. */
export class UnknownExec extends Refused {}

/** 404 of a file or directory that is not there. */
export class FileNotFound extends Refused {}

/** 409 `still_running`: only what has ended can be acked. */
export class StillRunning extends Refused {}

/** 409 `already_acked`: its result was handed over before. */
export class AlreadyAcked extends Refused {}

/** 500 `spawn_failed`: no such program or directory, or the guest could not start it; nothing runs. */
export class SpawnFailed extends Refused {}

/** 408 `stdin_write_timeout`: the child did not read in time. The pipe is open, and the rest may be tried again. */
export class StdinTimeout extends Refused {
  /** Bytes of this write that the pipe took; undefined where the answer does not tell. */
  get written(): number | undefined {
    const told = /(\d+) bytes went/.exec(this.detail)?.[1];
    return told === undefined ? undefined : Number(told);
  }
}

/** 410 `stdin_closed`: its end was sent, or the child stopped reading. Trying again never helps. */
export class StdinClosed extends Refused {}

/** 413: a body, a write to stdin or a tree is larger than a limit of the guest. */
export class TooLarge extends Refused {}

/** 507: the guest's disk is at its reserve. */
export class DiskFull extends Refused {}

/** Output that left the guest's replay window before it was read: bytes [from, to) of the stream are gone. */
export class OutputGap extends GuestError {
  /** Offset of the first byte that is gone. */
  readonly from: bigint;
  /** Offset of the first byte that is not: attach there to read on. */
  readonly to: bigint;

  /** Makes the error for [from, to). */
  constructor(from: bigint, to: bigint) {
    super(`Cannot read the output: bytes ${from} to ${to} are gone, nobody read them in time`);
    this.from = from;
    this.to = to;
  }
}

/** More output than `output()` was to hold; the command was killed. */
export class OutputTooLarge extends GuestError {}

/** The tunnel was closed with a code that is no proper end, such as 4502: nothing listens on the port. */
export class TunnelClosed extends GuestError {
  /** WebSocket close code; 1006 where the connection ended without one. */
  readonly code: number;
  /** The guest's words, possibly none. */
  readonly reason: string;

  /** Makes the error for a close code. */
  constructor(code: number, reason: string) {
    super(`Cannot go on: the tunnel was closed with ${code}${reason && `, ${reason}`}`);
    this.code = code;
    this.reason = reason;
  }
}

/** The handshake with the guest's identity failed: it is another VM, or the keys are not its own. */
export class IdentityRefused extends TunnelClosed {}

/** How a refused request is made into its error. */
type Kind = new (
  what: string,
  status: number,
  slug: Slug | undefined,
  detail: string,
) => Refused;

const BY_SLUG: Readonly<Partial<Record<Slug, Kind>>> = {
  unknown_exec: UnknownExec,
  still_running: StillRunning,
  already_acked: AlreadyAcked,
  spawn_failed: SpawnFailed,
  stdin_write_timeout: StdinTimeout,
  stdin_closed: StdinClosed,
  stdin_write_too_large: TooLarge,
};

const BY_STATUS: Readonly<Record<number, Kind>> = {
  401: Unauthorized,
  404: FileNotFound,
  413: TooLarge,
  503: NotBootstrapped,
  507: DiskFull,
};

/** The error for an answer of failure; `what` was asked, as in "start a command". */
export function refusalOf(what: string, status: number, type: string, body: string): Refused {
  const error = errorBody(type, body);
  const kind = (error && BY_SLUG[error.error]) ?? BY_STATUS[status] ?? Refused;
  return new kind(what, status, error?.error, (error?.detail ?? body).trim());
}

function errorBody(type: string, body: string): ErrorBody | undefined {
  if (!type.startsWith("application/json")) return undefined;
  try {
    const parsed = JSON.parse(body) as Partial<ErrorBody> | null;
    return typeof parsed?.error === "string" && typeof parsed.detail === "string"
      ? parsed as ErrorBody
      : undefined;
  } catch {
    return undefined;
  }
}
