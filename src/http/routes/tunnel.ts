import { decodeTunnelQuery } from "../../contract/tunnel.ts";
import { VERSION } from "../../contract/version.ts";
import type { Tunnels } from "../../tunnel/tunnels.ts";
import { upgradeHead, websocketKey } from "../../tunnel/upgrade.ts";
import type { Call, Handlers } from "../router.ts";

/** What the tunnel's route needs. */
export interface TunnelRoutesOptions {
  /** All tunnels. */
  readonly tunnels: Tunnels;
  /** Name of the header that carries the version. */
  readonly versionHeader: string;
}

/** The route of the tunnel. */
export type TunnelRoutes = Pick<Handlers, "tcp">;

/** Makes the handler of the tunnel. */
export function tunnelRoutes({ tunnels, versionHeader }: TunnelRoutesOptions): TunnelRoutes {
  return {
    async tcp({ request, query, info }: Call): Promise<Response> {
      // Both before the upgrade: afterwards the request is no longer there to be asked.
      const remote = info.remoteAddr as Deno.NetAddr;
      const decoded = decodeTunnelQuery(query);
      const head = await upgradeHead(websocketKey(request), { [versionHeader]: VERSION });
      return tunnels.open({ request, remote, head, query: decoded });
    },
  };
}
