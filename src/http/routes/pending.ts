import { text } from "../respond.ts";
import type { Handler, Handlers } from "../router.ts";

/** The routes of files. */
export type PendingRoutes = Pick<
  Handlers,
  "file_read" | "file_write" | "tar_read" | "tar_write"
>;

/** Answers 501 on the routes whose rooms are still to be built. */
export function pendingRoutes(): PendingRoutes {
  const pending: Handler = () => text(501, "This route is not built yet.");
  return {
    file_read: pending,
    file_write: pending,
    tar_read: pending,
    tar_write: pending,
  };
}
