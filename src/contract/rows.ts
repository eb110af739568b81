import {
  KillResponse,
  PollResponse,
  StartRequest,
  StartResponse,
  StdinRequest,
  StdinResponse,
} from "./exec.ts";
import { FileReadQuery, FsQuery } from "./files.ts";
import { RunHookEnvelope } from "./hooks.ts";
import { type Slug, SLUGS } from "./refusal.ts";
import type { Schema } from "./schema.ts";
import { ExitEvent, GapEvent, OutputEvent, StreamQuery } from "./stream.ts";
import { Health, ProcsResponse } from "./system.ts";
import { TunnelQuery } from "./tunnel.ts";

/** Names of the routes, in the order of the protocol. */
export const ROUTE_NAMES = [
  "ready",
  "validate",
  "run",
  "suspend",
  "resume",
  "terminate",
  "exec_start",
  "exec_poll",
  "exec_stream",
  "exec_stdin",
  "exec_ack",
  "exec_kill",
  "procs",
  "tcp",
  "file_read",
  "file_write",
  "tar_read",
  "tar_write",
  "health",
  "schema",
] as const;

/** Name of a route. */
export type RouteName = (typeof ROUTE_NAMES)[number];

/**
 * Who may call a route: the holder of the token, anyone, or the platform, which holds no
 * credential.
 */
export type Auth = "Bearer" | "Open" | "PlatformHook";

/** What a request or a response carries. */
export interface Content {
  /** Its media type. */
  readonly content_type: string;
  /** Its schema, when it is JSON. */
  readonly schema?: Schema<unknown>;
}

/** One status that a route answers. */
export interface StatusRow {
  /** HTTP status. */
  readonly code: number;
  /** Error slug; empty where there is none. */
  readonly error: Slug | "";
  /** What the status tells the client. */
  readonly meaning: string;
}

/** One route of the closed roster. */
export interface RouteRow {
  /** Name within the daemon. */
  readonly name: RouteName;
  /** HTTP method. */
  readonly method: "GET" | "POST" | "PUT";
  /** Path with `{hook_prefix}` and `{id}` as placeholders. */
  readonly path: string;
  /** Who may call it. */
  readonly auth: Auth;
  /** What it does, in one sentence. */
  readonly summary: string;
  /** Request body; null where none is read. */
  readonly request: Content | null;
  /** Body of the successful answer; null where there is none. */
  readonly response: Content | null;
  /** All statuses that the route answers. */
  readonly statuses: readonly StatusRow[];
  /** Query, on the routes that take one. */
  readonly query?: Schema<unknown>;
  /** Events by name, on the stream. */
  readonly sse_events?: Readonly<Record<string, Schema<unknown>>>;
}

function status(code: number, meaning: string): StatusRow {
  return { code, error: "", meaning };
}

/** The status of `slug`, by default with the slug's own meaning. */
function slugged(slug: Slug, meaning: string = SLUGS[slug].meaning): StatusRow {
  return { code: SLUGS[slug].status, error: slug, meaning };
}

const json = (schema: Schema<unknown>): Content => ({ content_type: "application/json", schema });
const OCTETS: Content = { content_type: "application/octet-stream" };
const TAR: Content = { content_type: "application/x-tar" };

function simpleHook(name: RouteName, summary: string): RouteRow {
  return {
    name,
    method: "POST",
    path: `{hook_prefix}/${name}`,
    auth: "PlatformHook",
    summary,
    request: null,
    response: null,
    statuses: [status(200, "Always, whatever was sent and whatever fails.")],
  };
}

type BearerRow = Omit<RouteRow, "auth" | "request"> & { readonly request?: Content };

function bearer(row: BearerRow): RouteRow {
  const { statuses, request = null, ...rest } = row;
  return { ...rest, auth: "Bearer", request, statuses: [...statuses, ...BEARER_STATUSES] };
}

/** What every Bearer route may answer before anything else. */
const BEARER_STATUSES: readonly StatusRow[] = [
  status(
    401,
    "The token differs from the installed one, or the Authorization header is missing or of " +
      "another form; one line of text.",
  ),
  status(503, "No token is installed yet; one line of text."),
];

const UNKNOWN_EXEC: StatusRow = slugged("unknown_exec");
const malformed = (meaning: string): StatusRow => slugged("malformed_request", meaning);
const DISK_FULL: StatusRow = status(507, "The filesystem is under the disk reserve.");

/** The roster: exactly the routes that are served and published, in the order of the protocol. */
export const ROWS: readonly RouteRow[] = [
  simpleHook("ready", "Image-build probe: the daemon has started."),
  simpleHook("validate", "Image-build probe: the daemon has started."),
  {
    name: "run",
    method: "POST",
    path: "{hook_prefix}/run",
    auth: "PlatformHook",
    summary: "Installs the bearer token, once, and the base environment of all execs.",
    request: json(RunHookEnvelope),
    response: null,
    statuses: [
      status(200, "The token is installed, or it is the one that was installed before."),
      status(
        400,
        "The body or its payload is malformed or above 64 KiB; one line of text names the key or " +
          "shape.",
      ),
      status(409, "Another token is installed; nothing changed."),
    ],
  },
  simpleHook("suspend", "The VM is about to be frozen."),
  simpleHook("resume", "The VM was restored."),
  simpleHook("terminate", "Begins the graceful shutdown, after the answer."),
  bearer({
    name: "exec_start",
    method: "POST",
    path: "/v1/exec/start",
    summary: "Starts a command under an id of the client's; a retry starts nothing.",
    request: json(StartRequest),
    response: json(StartResponse),
    statuses: [
      status(200, "Started, or started before under the same id."),
      malformed(
        "The body is not valid, `exec_id` is empty, `timeout_sec` is not positive and finite, or " +
          "`command` is empty with `shell` false.",
      ),
      status(413, "The body exceeds `limits.max_body_bytes`."),
      slugged("spawn_failed"),
    ],
  }),
  bearer({
    name: "exec_poll",
    method: "GET",
    path: "/v1/exec/{id}",
    summary: "Phase and outcome of an exec; changes nothing. One younger than 100 ms that is " +
      "still running is answered when its phase changes or when it reaches that age.",
    response: json(PollResponse),
    statuses: [status(200, "Phase, with the outcome once exited."), UNKNOWN_EXEC],
  }),
  bearer({
    name: "exec_stream",
    method: "GET",
    path: "/v1/exec/{id}/stream",
    summary: "Replays an exec's output from an offset, then follows it. `exit` is last; a body " +
      "that closes without it means that the connection failed. After `sse_keepalive_secs` " +
      "without an event comes a comment line, `:` and a blank line.",
    response: { content_type: "text/event-stream" },
    statuses: [
      status(200, "The stream."),
      malformed("`offset` is not an unsigned 64-bit integer."),
      UNKNOWN_EXEC,
    ],
    query: StreamQuery,
    sse_events: { output: OutputEvent, gap: GapEvent, exit: ExitEvent },
  }),
  bearer({
    name: "exec_stdin",
    method: "POST",
    path: "/v1/exec/{id}/stdin",
    summary: "Writes to an exec's stdin, closes it, or both. Writes to one exec are ordered.",
    request: json(StdinRequest),
    response: json(StdinResponse),
    statuses: [
      status(200, "Written; `eof` is echoed."),
      malformed(
        "The body is not valid, `data_b64` is not strict base64, or `signal` is not `eof`.",
      ),
      UNKNOWN_EXEC,
      slugged("stdin_write_timeout"),
      slugged("stdin_not_requested"),
      slugged("stdin_closed"),
      slugged(
        "stdin_write_too_large",
        "The decoded write exceeds `limits.max_stdin_write_bytes`, or the body 2 MiB and twice " +
          "that limit.",
      ),
      slugged("stdin_write_failed"),
    ],
  }),
  bearer({
    name: "exec_ack",
    method: "POST",
    path: "/v1/exec/{id}/ack",
    summary: "Releases the outcome to the client; the only way by which output leaves the daemon.",
    response: json(PollResponse),
    statuses: [
      status(200, "Phase `acked`, with the outcome."),
      UNKNOWN_EXEC,
      slugged("still_running"),
      slugged("already_acked"),
    ],
  }),
  bearer({
    name: "exec_kill",
    method: "POST",
    path: "/v1/exec/{id}/kill",
    summary: "Sends SIGTERM, and SIGKILL after `kill_grace_secs`, to the whole process group.",
    response: json(KillResponse),
    statuses: [
      status(200, "Signalled, or with `killed` false the group was already gone."),
      UNKNOWN_EXEC,
    ],
  }),
  bearer({
    name: "procs",
    method: "GET",
    path: "/v1/procs",
    summary: "The live processes of each exec's group.",
    response: json(ProcsResponse),
    statuses: [status(200, "One entry for each registered exec.")],
  }),
  bearer({
    name: "tcp",
    method: "GET",
    path: "/v1/tcp",
    summary: "Relays a WebSocket to a TCP port on the guest's loopback; failures of the dial " +
      "are close codes.",
    response: null,
    statuses: [
      status(101, "Switching protocols; binary frames in both directions."),
      malformed("`port` is missing or no uint16, or the request is no WebSocket upgrade."),
    ],
    query: TunnelQuery,
  }),
  bearer({
    name: "file_read",
    method: "GET",
    path: "/v1/fs/file",
    summary: "Reads a file, whole or a window of its lines.",
    response: OCTETS,
    statuses: [
      status(200, "The bytes. A window past the end is empty."),
      status(400, "`path` is missing or a directory, or a line bound is not valid."),
      status(404, "The path is absent."),
      status(500, "The file cannot be opened or stat'ed."),
    ],
    query: FileReadQuery,
  }),
  bearer({
    name: "file_write",
    method: "PUT",
    path: "/v1/fs/file",
    summary:
      "Writes a file; an upload that fails changes nothing, but for a failing disk under a file that only takes writing in place.",
    request: OCTETS,
    response: null,
    statuses: [
      status(204, "Written."),
      status(400, "`path` is missing or `mode` is not octal."),
      status(413, "The body exceeds `limits.max_body_bytes`."),
      status(500, "A parent cannot be made, or the write or the mode change fails."),
      DISK_FULL,
    ],
    query: FsQuery,
  }),
  bearer({
    name: "tar_read",
    method: "GET",
    path: "/v1/fs/tar",
    summary: "Downloads a directory tree as uncompressed tar, in pax format, sorted by name.",
    response: TAR,
    statuses: [
      status(200, "The archive."),
      status(400, "`path` is missing or no directory."),
      status(404, "The directory is absent."),
      status(413, "The tree exceeds `limits.max_tar_members` or `limits.max_tar_bytes`."),
      status(500, "The tree cannot be walked or packed."),
    ],
    query: FsQuery,
  }),
  bearer({
    name: "tar_write",
    method: "PUT",
    path: "/v1/fs/tar",
    summary:
      "Extracts an uncompressed tar beneath a root; an archive that is refused leaves nothing.",
    request: TAR,
    response: null,
    statuses: [
      status(204, "Extracted."),
      status(
        400,
        "`path` is missing or not absolute, the archive is truncated, or a member is refused; " +
          "the text names it.",
      ),
      status(
        413,
        "The body exceeds `limits.max_body_bytes`, or the archive `limits.max_tar_members` or " +
          "`limits.max_tar_bytes`.",
      ),
      status(500, "The filesystem failed."),
      DISK_FULL,
    ],
    query: FsQuery,
  }),
  {
    name: "health",
    method: "GET",
    path: "/v1/health",
    auth: "Open",
    summary: "State of the daemon.",
    request: null,
    response: json(Health),
    statuses: [status(200, "Always, bootstrapped or not.")],
  },
  {
    name: "schema",
    method: "GET",
    path: "/v1/schema",
    auth: "Open",
    summary: "This document, served as application/json.",
    request: null,
    response: OCTETS,
    statuses: [status(200, "Always.")],
  },
];

/** The path of `row` as it is served: the hook prefix in force put in. */
export function servedPath(row: RouteRow, hookPrefix: string): string {
  return row.path.replace("{hook_prefix}", () => hookPrefix);
}
