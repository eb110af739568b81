import { object, withDefault } from "./object.ts";
import { digits16, flag } from "./schema.ts";

/** Where a tunnel leads. */
export class TunnelQuery extends object({
  /** Port in the guest, dialled on 127.0.0.1 only; decimal. 0 is refused after the upgrade. */
  port: digits16(),
  /** Whether a Noise KK handshake proves the client before the dial; `1`, `true`, `0` or `false`. */
  identity: withDefault(flag(), false, false),
}) {}

/** Close codes of a tunnel, with what each tells the client. */
export const CLOSE_CODES = {
  port_zero: { code: 4400, meaning: "Port 0 requested." },
  no_identity: { code: 4401, meaning: "No identity seed in this VM; no silent downgrade." },
  handshake_refused: { code: 4403, meaning: "Noise KK handshake refused." },
  relay_failed: { code: 4500, meaning: "Failure in mid-relay." },
  nothing_listening: { code: 4502, meaning: "Nothing listening on the port." },
} as const satisfies Record<string, { readonly code: number; readonly meaning: string }>;
