import { PlainRefusal } from "../../contract/refusal.ts";
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
      // All before the upgrade: afterwards the request is no longer there to be asked.
      const decoded = decodeTunnelQuery(query);
      const head = await upgradeHead(websocketKey(request), { [versionHeader]: VERSION });
      const { signal } = request;
      const caller = await tunnels.hold(info.remoteAddr as Deno.NetAddr);
      if (signal.aborted) {
        caller?.[Symbol.dispose]();
        throw new PlainRefusal(500, "Cannot open the tunnel: the caller left");
      }
      try {
        return tunnels.open({ request, caller, head, query: decoded });
      } catch (error) {
        caller?.[Symbol.dispose]();
        throw error;
      }
    },
  };
}
