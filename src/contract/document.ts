import descriptions from "./descriptions.json" with { type: "json" };
import {
  KillResponse,
  PHASE,
  PollResponse,
  StartRequest,
  StartResponse,
  StdinRequest,
  StdinResponse,
} from "./exec.ts";
import { FileReadQuery, FsQuery } from "./files.ts";
import { RunHook, RunHookEnvelope } from "./hooks.ts";
import type { Limits } from "./limits.ts";
import { reference } from "./object.ts";
import { ErrorBody } from "./refusal.ts";
import { type Content, type RouteRow, ROWS, servedPath } from "./rows.ts";
import type { JsonObject, JsonValue, Schema } from "./schema.ts";
import { ExitEvent, GapEvent, OutputEvent, STREAM_KIND, StreamQuery } from "./stream.ts";
import { DiskHealth, Health, HookObservation, ProcGroup, ProcsResponse } from "./system.ts";
import { TunnelQuery } from "./tunnel.ts";
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
const DEFINITIONS: readonly Schema<unknown>[] = [
  StartRequest,
  StartResponse,
  PHASE,
  PollResponse,
  KillResponse,
  StdinRequest,
  StdinResponse,
  StreamQuery,
  STREAM_KIND,
  OutputEvent,
  GapEvent,
  ExitEvent,
  FsQuery,
  FileReadQuery,
  TunnelQuery,
  Health,
  DiskHealth,
  HookObservation,
  ProcsResponse,
  ProcGroup,
  RunHookEnvelope,
  RunHook,
  ErrorBody,
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
        "text. A path of the roster with another method, HEAD included, answers 405 with `Allow`. " +
        "A hook's path is unmatched for a request with an `Origin`, or a `Sec-Fetch-Site` other " +
        "than `none`.",
    },
    definition_collisions: [],
    $defs: Object.fromEntries(
      DEFINITIONS.map(({ name = "", json }) => [name, described(name, json)]),
    ),
  };
}

/** The schema of a type or a field with its description, and with those of its own fields. */
function described(name: string, json: JsonObject): JsonObject {
  const description = (descriptions as Readonly<Record<string, string>>)[name];
  if (description === undefined) throw new Error(`Cannot describe ${name}: it has no comment`);
  const properties = Object.entries((json["properties"] ?? {}) as Record<string, JsonObject>)
    .map(([field, schema]) => [field, described(`${name}.${field}`, schema)]);
  return {
    description,
    ...json,
    ...(properties.length === 0 ? {} : { properties: Object.fromEntries(properties) }),
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

function renderEvents(events: Readonly<Record<string, Schema<unknown>>>): JsonObject {
  return Object.fromEntries(
    Object.entries(events).map(([name, schema]) => [name, reference(schema)]),
  );
}
