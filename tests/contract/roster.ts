/** One route as the protocol has it, transcribed by hand so that nothing is compared with itself. */
export interface RosterRow {
  /** Method and path. */
  readonly route: string;
  /** Who may call it. */
  readonly auth: "PlatformHook" | "Bearer" | "Open";
  /** Every status, with its slug where it has one. */
  readonly statuses: readonly string[];
}

const hook = (name: string, ...more: string[]): RosterRow => ({
  route: `POST {hook_prefix}/${name}`,
  auth: "PlatformHook",
  statuses: ["200", ...more],
});

const bearer = (route: string, ...statuses: string[]): RosterRow => ({
  route,
  auth: "Bearer",
  statuses: [...statuses, "401", "503"],
});

/** The twenty routes, in the protocol's order. */
export const ROSTER: readonly RosterRow[] = [
  hook("ready"),
  hook("validate"),
  hook("run", "400", "409"),
  hook("suspend"),
  hook("resume"),
  hook("terminate"),
  bearer("POST /v1/exec/start", "200", "400 malformed_request", "413", "500 spawn_failed"),
  bearer("GET /v1/exec/{id}", "200", "404 unknown_exec"),
  bearer("GET /v1/exec/{id}/stream", "200", "400 malformed_request", "404 unknown_exec"),
  bearer(
    "POST /v1/exec/{id}/stdin",
    "200",
    "400 malformed_request",
    "404 unknown_exec",
    "408 stdin_write_timeout",
    "409 stdin_not_requested",
    "410 stdin_closed",
    "413 stdin_write_too_large",
    "500 stdin_write_failed",
  ),
  bearer(
    "POST /v1/exec/{id}/ack",
    "200",
    "404 unknown_exec",
    "409 still_running",
    "409 already_acked",
  ),
  bearer("POST /v1/exec/{id}/kill", "200", "404 unknown_exec"),
  bearer("GET /v1/procs", "200"),
  bearer("GET /v1/tcp", "101", "400 malformed_request"),
  bearer("GET /v1/fs/file", "200", "400", "404", "500"),
  bearer("PUT /v1/fs/file", "204", "400", "413", "500", "507"),
  bearer("GET /v1/fs/tar", "200", "400", "404", "413", "500"),
  bearer("PUT /v1/fs/tar", "204", "400", "413", "500", "507"),
  { route: "GET /v1/health", auth: "Open", statuses: ["200"] },
  { route: "GET /v1/schema", auth: "Open", statuses: ["200"] },
];
