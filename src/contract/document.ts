import {
  KILL_RESPONSE,
  PHASE,
  POLL_RESPONSE,
  START_REQUEST,
  START_RESPONSE,
  STDIN_REQUEST,
  STDIN_RESPONSE,
} from "./exec.ts";
import { FILE_READ_QUERY, FS_QUERY } from "./files.ts";
import { RUN_HOOK, RUN_HOOK_ENVELOPE } from "./hooks.ts";
import type { Limits } from "./limits.ts";
import { ERROR_BODY } from "./refusal.ts";
import { type Content, type RouteRow, ROWS, servedPath } from "./rows.ts";
import type { JsonObject, JsonValue, Published } from "./schema.ts";
import { reference } from "./schema_composite.ts";
import { EXIT_EVENT, GAP_EVENT, OUTPUT_EVENT, STREAM_KIND, STREAM_QUERY } from "./stream.ts";
import { DISK_HEALTH, HEALTH, HOOK_OBSERVATION, PROC_GROUP, PROCS_RESPONSE } from "./system.ts";
import { TUNNEL_QUERY } from "./tunnel.ts";
import { PROTOCOL_VERSION, VERSION } from "./version.ts";

/** What of the configuration the document publishes. */
export interface DocumentOptions {
  /** Limits in force. */
  readonly limits: Limits;
  /** Path prefix of the hooks in force. */
  readonly hookPrefix: string;
  /** Name of the version header in force. */
  readonly versionHeader: string;
}

/** Every type of the protocol, in its order. */
const DEFINITIONS: readonly Published[] = [
  START_REQUEST,
  START_RESPONSE,
  PHASE,
  POLL_RESPONSE,
  KILL_RESPONSE,
  STDIN_REQUEST,
  STDIN_RESPONSE,
  STREAM_QUERY,
  STREAM_KIND,
  OUTPUT_EVENT,
  GAP_EVENT,
  EXIT_EVENT,
  FS_QUERY,
  FILE_READ_QUERY,
  TUNNEL_QUERY,
  HEALTH,
  DISK_HEALTH,
  HOOK_OBSERVATION,
  PROCS_RESPONSE,
  PROC_GROUP,
  RUN_HOOK_ENVELOPE,
  RUN_HOOK,
  ERROR_BODY,
];

/**
 * The document of `GET /v1/schema`, rendered from the rows that route and the schemas that decode.
 */
export function schemaDocument(options: DocumentOptions): JsonObject {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "guestd: wire protocol of a guest execution daemon",
    daemon_version: VERSION,
    protocol_version: PROTOCOL_VERSION,
    generated_from:
      "the route rows and schemas of src/contract, by which guestd routes and decodes",
    version_header: options.versionHeader,
    hook_prefix: options.hookPrefix,
    auth: {
      Bearer: "`Authorization: Bearer <agent_token>`, the scheme in any case. 503 before a token " +
        "is installed; 401 with `WWW-Authenticate: Bearer` for another token or no such header.",
      Open: "No authentication.",
      PlatformHook: "No authentication: the platform holds no credential. The run hook succeeds " +
        "once; later it only accepts the same token again.",
    },
    limits: { ...options.limits },
    routes: ROWS.map((row) => renderRow(row, options.hookPrefix)),
    unmatched_path: {
      code: 404,
      error: "",
      meaning: "The path is none of the routes; asked of neither token nor method. One line of " +
        "text. A path of the roster with another method, HEAD included, answers 405 with `Allow`.",
    },
    definition_collisions: [],
    $defs: Object.fromEntries(DEFINITIONS.map((schema) => [schema.name ?? "", schema.json])),
  };
}

function renderRow(row: RouteRow, hookPrefix: string): JsonObject {
  const { method, auth, summary, request, response, statuses, query, sse_events } = row;
  return {
    method,
    path: servedPath(row, hookPrefix),
    auth,
    summary,
    request: renderContent(request),
    response: renderContent(response),
    statuses: statuses.map(({ code, error, meaning }) => ({ code, error, meaning })),
    ...(query === undefined ? {} : { query: reference(query) }),
    ...(sse_events === undefined ? {} : { sse_events: renderEvents(sse_events) }),
  };
}

function renderContent(content: Content | null): JsonValue {
  if (content === null) return null;
  const { content_type, schema } = content;
  return schema === undefined ? { content_type } : { content_type, schema: reference(schema) };
}

function renderEvents(events: Readonly<Record<string, Published>>): JsonObject {
  return Object.fromEntries(
    Object.entries(events).map(([name, schema]) => [name, reference(schema)]),
  );
}
