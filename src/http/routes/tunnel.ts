import { decodeQuery } from "../../contract/object.ts";
import { TunnelQuery } from "../../contract/tunnel.ts";
import type { Tunnels } from "../../tunnel/tunnels.ts";
import { demandUpgrade } from "../../tunnel/upgrade.ts";
import type { Call, Handlers } from "../router.ts";

/** The route of the tunnel. */
export type TunnelRoutes = Pick<Handlers, "tcp">;

/** Makes the handler of the tunnel. */
export function tunnelRoutes(tunnels: Tunnels): TunnelRoutes {
  return {
    async tcp({ request, query, info, visit }: Call): Promise<Response> {
      const decoded = decodeQuery(TunnelQuery, query);
      demandUpgrade(request);
      const { response, gone } = await tunnels.open(request, info.remoteAddr, decoded);
      visit.until(gone);
      return response;
    },
  };
}
