import {
  flagParameter,
  portParameter,
  query,
  type QuerySchema,
  type QuerySource,
} from "./query.ts";
import { refusing } from "./refusal.ts";

/** Query of `GET /v1/tcp`. */
export interface TunnelQuery {
  /** Port on 127.0.0.1; 0 is refused after the upgrade. */
  readonly port: number;
  /** Whether a Noise KK handshake runs before the dial. */
  readonly identity: boolean;
}

/** Schema of {@link TunnelQuery}. */
export const TUNNEL_QUERY: QuerySchema<TunnelQuery> = query<TunnelQuery>(
  "TunnelQuery",
  "Where a tunnel leads.",
  {
    port: portParameter("Port in the guest, dialled on 127.0.0.1 only; decimal."),
    identity: flagParameter(
      "Whether a Noise KK handshake proves the caller before the dial; `1`, `true`, `0` or `false`.",
    ),
  },
);

/** Close codes of a tunnel, with what each tells the caller. */
export const CLOSE_CODES = {
  port_zero: { code: 4400, meaning: "Port 0 requested." },
  no_identity: { code: 4401, meaning: "No identity seed in this VM; no silent downgrade." },
  handshake_refused: { code: 4403, meaning: "Noise KK handshake refused." },
  relay_failed: { code: 4500, meaning: "Failure in mid-relay." },
  nothing_listening: { code: 4502, meaning: "Nothing listening on the port." },
} as const satisfies Record<string, { readonly code: number; readonly meaning: string }>;

/** Decodes the query of a tunnel; throws the `malformed_request` refusal. */
export function decodeTunnelQuery(source: QuerySource): TunnelQuery {
  return refusing(() => TUNNEL_QUERY.read(source));
}
