import { CLOSE_CODES } from "../contract/tunnel.ts";

/** What the client is told with the close frame. */
export interface Verdict {
  /** Close code. */
  readonly code: number;
  /** Prose for logs. Of the handshake it tells nothing. */
  readonly reason: string;
}

/** Port 0 was asked for. */
export const PORT_ZERO: Verdict = {
  code: CLOSE_CODES.port_zero.code,
  reason: "port 0 cannot be dialled",
};

/** An identity was asked for that this VM was not given. */
export const NO_IDENTITY: Verdict = {
  code: CLOSE_CODES.no_identity.code,
  reason: "this VM was launched without an identity",
};

/** The client did not prove itself, or not in time. */
export const HANDSHAKE_REFUSED: Verdict = {
  code: CLOSE_CODES.handshake_refused.code,
  reason: "handshake refused",
};

/** The daemon ends. */
export const GOING_AWAY: Verdict = { code: 1001, reason: "the daemon is shutting down" };

/** The guest has sent all. */
export const GUEST_ENDED: Verdict = { code: 1000, reason: "the guest ended its stream" };

/** A message behind the handshake is not the client's. */
export const MESSAGE_BROKEN: Verdict = failed("a frame could not be opened");

/** The guest takes too little, and this Deno's WebSocket cannot be paused. */
export const QUEUE_FULL: Verdict = failed("the guest takes less than the client sends");

/** A guest's port could not be dialled, with the system's code for why. */
export function dialFailed(port: number, cause: string): Verdict {
  if (cause === "ECONNREFUSED" || cause === "ETIMEDOUT") {
    const { code } = CLOSE_CODES.nothing_listening;
    return { code, reason: `nothing listening on port ${port}: ${cause}` };
  }
  return failed(`port ${port} cannot be dialled: ${cause}`);
}

/** A guest's connection failed, with the system's code for why. */
export function guestFailed(port: number, cause: string): Verdict {
  return failed(`the connection to port ${port} failed: ${cause}`);
}

function failed(reason: string): Verdict {
  return { code: CLOSE_CODES.relay_failed.code, reason };
}
