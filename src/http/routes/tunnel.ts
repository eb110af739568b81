import { decodeTunnelQuery } from "../../contract/tunnel.ts";
import type { Tunnels } from "../../tunnel/tunnels.ts";
import { demandUpgrade } from "../../tunnel/upgrade.ts";
import type { Call, Handlers } from "../router.ts";

/** The route of the tunnel. */
export type TunnelRoutes = Pick<Handlers, "tcp">;

/** Makes the handler of the tunnel. */
export function tunnelRoutes(tunnels: Tunnels): TunnelRoutes {
  return {
    tcp({ request, query, info }: Call): Promise<Response> {
      const decoded = decodeTunnelQuery(query);
      demandUpgrade(request);
      return tunnels.open(request, info.remoteAddr as Deno.NetAddr, decoded);
    },
  };
}
