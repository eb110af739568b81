import { CLOSE_CODES } from "../contract/tunnel.ts";
import { ECONNREFUSED, errnoText, ETIMEDOUT } from "../native/errno.ts";
import { TunnelEnd, type TunnelEnding } from "../native/tunnel.ts";

/** What the caller is told with the close frame. */
export interface Verdict {
  /** Close code; 0 where the caller needs none, for it has closed or is gone. */
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

/** The daemon ends. */
export const GOING_AWAY: Verdict = { code: 1001, reason: "the daemon is shutting down" };

/** The relay could not even begin. */
export const RELAY_FAILED: Verdict = {
  code: CLOSE_CODES.relay_failed.code,
  reason: "the relay could not take the connection",
};

/** What a tunnel to `port` that ended like this tells its caller. */
export function verdictOf({ end, errno }: TunnelEnding, port: number): Verdict {
  switch (end) {
    case TunnelEnd.guestEnded:
      return { code: 1000, reason: "the guest ended its stream" };
    case TunnelEnd.dialFailed:
      if (errno === ECONNREFUSED || errno === ETIMEDOUT) {
        const { code } = CLOSE_CODES.nothing_listening;
        return { code, reason: `nothing listening on port ${port}: ${errnoText(errno)}` };
      }
      return failed(`port ${port} cannot be dialled: ${errnoText(errno)}`);
    case TunnelEnd.guestFailed:
      return failed(`the connection to port ${port} failed: ${errnoText(errno)}`);
    case TunnelEnd.handshakeRefused:
      return { code: CLOSE_CODES.handshake_refused.code, reason: "handshake refused" };
    case TunnelEnd.messageBroken:
      return failed("a frame could not be opened");
    case TunnelEnd.frameBroken:
      return { code: 1002, reason: "a frame breaks the WebSocket protocol" };
    case TunnelEnd.callerClosed:
    case TunnelEnd.callerGone:
    case TunnelEnd.stopped:
      return { code: 0, reason: "" };
    default:
      return failed("the relay failed");
  }
}

function failed(reason: string): Verdict {
  return { code: CLOSE_CODES.relay_failed.code, reason };
}

/** A close frame with a verdict, for a connection that the core could not take. */
export function closeFrame({ code, reason }: Verdict): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(reason);
  return new Uint8Array([0x88, 2 + text.length, code >> 8, code & 0xff, ...text]);
}
