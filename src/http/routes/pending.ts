import { text } from "../respond.ts";
import type { Handlers } from "../router.ts";

/** The route of the tunnel. */
export type PendingRoutes = Pick<Handlers, "tcp">;

/** Answers 501 on the route whose room is still to be built. */
export function pendingRoutes(): PendingRoutes {
  return { tcp: () => text(501, "This route is not built yet.") };
}
