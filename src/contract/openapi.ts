/**
 * The OpenAPI document of the wire, for `guestd --print-openapi`: what `GET /v1/schema` publishes, in the form that
 * generators of clients, linters and fuzzers read. Nothing that serves loads this module. It imports nothing of what the
 * daemon runs by, for what is loaded on demand in a bundle is loaded so for everybody.
 *
 * @module
 */

import type { DocumentOptions } from "./document.ts";
import { EXAMPLE_ID, EXAMPLES } from "./examples.ts";
import type { RouteRow, StatusRow } from "./rows.ts";
import type { JsonObject, JsonValue } from "./schema.ts";

/** What the document is rendered from. */
export interface OpenApiSource {
  /** What of the configuration it publishes. */
  readonly options: DocumentOptions;
  /** The document of `GET /v1/schema`. */
  readonly schema: JsonObject;
  /** The roster from which that was rendered. */
  readonly rows: readonly RouteRow[];
  /** The path of a row as it is served. */
  readonly servedPath: (row: RouteRow, hookPrefix: string) => string;
  /** Close codes of a tunnel. */
  readonly closeCodes: Readonly<
    Record<string, { readonly code: number; readonly meaning: string }>
  >;
}

/** A JSON object in the making. */
type Draft = Record<string, JsonValue>;

const BYTES: JsonObject = { type: "string", format: "binary" };
const TEXT: JsonObject = { type: "string" };

/** What the server below the routes answers to what is no HTTP for it; described with each route. */
const BARE = "A request that the HTTP server cannot parse (a malformed request line, header or " +
  "chunk, more than 64 KiB of headers, a wish to upgrade together with a body) is answered with " +
  "400 before any route is looked for: no body, no version header, and the connection ends.";

const OVERVIEW = [
  "The daemon in a guest starts commands under ids of the client's, keeps and streams their " +
  "output, moves files and trees, and relays tunnels. A command is started, followed or polled, " +
  "and acked; each of them may be repeated after a lost answer but the ack, which hands the " +
  "output over a last time.",
  "Routes with a token answer 503 until the run hook has installed it, and 401 to another one. " +
  "Refusals are one line of text, but for those of the `/v1/exec` and `/v1/tcp` routes that have a " +
  "slug: branch on `error`.",
  "A path that is none of these answers 404, whatever the token; another method 405 with `Allow`. " +
  "Every answer carries the version header. Of a repeated parameter of a query the first counts, " +
  "and unknown parameters and fields are ignored.",
  BARE,
  "`x-limits` has the limits in force, which `GET /v1/schema` publishes too.",
].join("\n\n");

const TAGS: Readonly<Record<string, string>> = {
  Hooks: "What the platform tells the guest of its life. The run hook brings the token, once.",
  Commands: "Commands, their output, their stdin and their end.",
  Files: "Files, and directory trees as tar.",
  Tunnel: "A WebSocket to a TCP port of the guest's own.",
  Daemon: "The daemon itself.",
};

/** The OpenAPI 3.1 document of a daemon. */
export function openApiDocument(source: OpenApiSource): JsonObject {
  const { schema, rows, options } = source;
  const schemas = typesOf(source);
  const paths: Record<string, Draft> = {};
  for (const row of rows) {
    const methods = paths[source.servedPath(row, options.hookPrefix)] ??= {};
    methods[row.method.toLowerCase()] = operation(row, source);
  }
  return relocated({
    openapi: "3.1.0",
    info: {
      title: "guestd",
      version: schema["daemon_version"] ?? "",
      summary: "Wire protocol of a guest execution daemon.",
      description: OVERVIEW,
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "http://127.0.0.1:9000", description: "As `./build.sh run` starts it." }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      securitySchemes: {
        Bearer: {
          type: "http",
          scheme: "bearer",
          description: "The token that the run hook brought.",
        },
      },
      headers: {
        Version: {
          description: "Version of the daemon.",
          required: true,
          schema: TEXT,
          example: schema["daemon_version"] ?? "",
        },
      },
      // Those of queries are parameters here.
      schemas: Object.fromEntries(
        Object.entries(schemas)
          .filter(([name]) => rows.every(({ query }) => query?.name !== name))
          .map(([name, type]) => [name, name === "RunHookEnvelope" ? withPayload(type) : type]),
      ),
    },
    "x-limits": schema["limits"] ?? null,
    "x-unmatched-path": schema["unmatched_path"] ?? null,
  }) as JsonObject;
}

/** The same value with its references to where an OpenAPI document has the types. */
function relocated(value: JsonValue): JsonValue {
  if (typeof value === "string") return value.replace(/^#\/\$defs\//, "#/components/schemas/");
  if (Array.isArray(value)) return value.map(relocated);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, relocated(part)]));
}

/** The types of the protocol by their names, with their descriptions. */
function typesOf({ schema }: OpenApiSource): Readonly<Record<string, JsonObject>> {
  return schema["$defs"] as Readonly<Record<string, JsonObject>>;
}

/** The properties of an object's type. */
function propertiesOf(type: JsonObject | undefined): Readonly<Record<string, JsonObject>> {
  return (type?.["properties"] ?? {}) as Readonly<Record<string, JsonObject>>;
}

/** The run hook's body, which says what the text in it holds. */
function withPayload(type: JsonObject): JsonObject {
  const inner = {
    contentMediaType: "application/json",
    contentSchema: { $ref: "#/$defs/RunHook" },
  };
  const { runHookPayload } = propertiesOf(type);
  return { ...type, properties: { runHookPayload: { ...runHookPayload, ...inner } } };
}

function operation(row: RouteRow, source: OpenApiSource): JsonObject {
  const { name, auth, summary, query, request, sse_events } = row;
  const parameters = [
    ...(row.path.includes("{id}") ? [idParameter(source)] : []),
    ...(query === undefined ? [] : queryParameters(row, typesOf(source)[query.name ?? ""])),
  ];
  const [title = "", ...more] = summary.split(/(?<=\.) /);
  const codes = name === "tcp" ? Object.values(source.closeCodes) : [];
  const closing = codes.map(({ code, meaning }) => `\n- close code ${code}: ${meaning}`);
  const description = `${more.join(" ")}\n${closing.join("")}`.trim();
  // OpenAPI 3.1 has no word for what a stream consists of.
  const events = Object.entries(sse_events ?? {})
    .map(([event, type]) => [event, { $ref: `#/$defs/${type.name}` }]);
  return {
    operationId: name,
    tags: [tagOf(row)],
    summary: title.replace(/\.$/, ""),
    ...(description === "" ? {} : { description }),
    security: auth === "Bearer" ? [{ Bearer: [] }] : [],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(request === null ? {} : { requestBody: requestBody(row) }),
    responses: responses(row, source),
    ...(events.length === 0 ? {} : { "x-sse-events": Object.fromEntries(events) }),
    ...(codes.length === 0 ? {} : { "x-close-codes": codes.map((code) => ({ ...code })) }),
    "x-codeSamples": [{ lang: "Shell", label: "curl", source: curl(row, source) }],
  };
}

function idParameter(source: OpenApiSource): JsonObject {
  const { description: _, ...schema } = propertiesOf(typesOf(source)["StartRequest"])["exec_id"] ??
    {};
  return {
    name: "id",
    in: "path",
    required: true,
    description: "Id of the exec, percent-encoded.",
    schema,
    example: EXAMPLE_ID,
  };
}

function tagOf({ auth, path, name }: RouteRow): string {
  if (auth === "PlatformHook") return "Hooks";
  if (path.startsWith("/v1/exec/") || name === "procs") return "Commands";
  if (path.startsWith("/v1/fs/")) return "Files";
  return name === "tcp" ? "Tunnel" : "Daemon";
}

function queryParameters(
  { name }: RouteRow,
  type: JsonObject | undefined,
): readonly JsonObject[] {
  const required = (type?.["required"] ?? []) as readonly string[];
  return Object.entries(propertiesOf(type)).map(([field, { description = "", ...json }]) => {
    const example = EXAMPLES[name].query?.[field];
    const schema = asText(json);
    return {
      name: field,
      in: "query",
      required: required.includes(field),
      description,
      schema,
      ...(example === undefined
        ? {}
        : { example: schema["type"] === "integer" ? Number(example) : example }),
    };
  });
}

/** The schema of a field as a query can spell it: nobody can write null there, and a boolean in four ways. */
function asText({ default: fallback, ...json }: JsonObject): JsonObject {
  const [type = json] = (json["anyOf"] ?? []) as readonly JsonObject[];
  const shown = fallback === undefined || fallback === null ? {} : { default: `${fallback}` };
  if (type["type"] === "boolean") {
    return { type: "string", enum: ["1", "true", "0", "false"], ...shown };
  }
  return { ...type, ...shown };
}

function requestBody({ name, request }: RouteRow): JsonObject {
  const example = EXAMPLES[name].request;
  const schema = request?.schema === undefined ? BYTES : { $ref: `#/$defs/${request.schema.name}` };
  return {
    required: request?.schema !== undefined,
    content: {
      [request?.content_type ?? ""]: { schema, ...(example === undefined ? {} : { example }) },
    },
  };
}

function responses(row: RouteRow, source: OpenApiSource): JsonObject {
  const codes = new Set(row.statuses.map(({ code }) => code));
  codes.add(400);
  if (row.auth === "PlatformHook") codes.add(404);
  return Object.fromEntries(
    [...codes].toSorted((a, b) => a - b).map((code) => [`${code}`, response(row, code, source)]),
  );
}

function response(row: RouteRow, code: number, { options, rows }: OpenApiSource): JsonObject {
  const statuses = row.statuses.filter((status) => status.code === code);
  const meanings = statuses.map(({ meaning, error }) =>
    error === "" ? meaning : `\`${error}\`: ${meaning}`
  );
  if (code === 400) meanings.push("Without a body and the version header: the request is no HTTP.");
  if (code === 404 && statuses.length === 0) meanings.push("The request is a web page's.");
  const content = code < 400 ? answerContent(row) : refusalContent(row, code, statuses);
  return {
    description: meanings.join(" "),
    headers: {
      [options.versionHeader]: code === 400
        ? { description: "Version of the daemon.", schema: TEXT }
        : { $ref: "#/components/headers/Version" },
      ...(code === 401 ? { "www-authenticate": { schema: TEXT, example: "Bearer" } } : {}),
      ...(code === 101 ? { upgrade: { schema: TEXT, example: "websocket" } } : {}),
    },
    ...(Object.keys(content).length === 0 ? {} : { content }),
    ...(row.name === "exec_start" && code === 200 ? { links: links(rows) } : {}),
  };
}

/** The routes that take the id of an exec that was started. */
function links(rows: readonly RouteRow[]): JsonObject {
  const ofExec = rows.filter(({ path }) => path.includes("{id}"));
  const parameters = { id: "$response.body#/exec_id" };
  return Object.fromEntries(ofExec.map(({ name }) => [name, { operationId: name, parameters }]));
}

function answerContent({ name, response }: RouteRow): JsonObject {
  if (response === null) return {};
  const { content_type, schema } = response;
  // The row keeps the protocol's media type of this one.
  if (name === "schema") return { "application/json": { schema: { type: "object" } } };
  const example = EXAMPLES[name].response;
  const plain = content_type.startsWith("text/") ? TEXT : BYTES;
  return {
    [content_type]: {
      schema: schema === undefined ? plain : { $ref: `#/$defs/${schema.name}` },
      ...(example === undefined ? {} : { example }),
    },
  };
}

/** The slugs of a status as JSON, and one line of text where there are others. */
function refusalContent(row: RouteRow, code: number, statuses: readonly StatusRow[]): JsonObject {
  const slugs = statuses.map(({ error }) => error).filter((error) => error !== "");
  const content: Draft = {};
  if (slugs.length > 0) {
    const narrowed = { properties: { error: { enum: slugs } } };
    content["application/json"] = {
      schema: { allOf: [{ $ref: "#/$defs/ErrorBody" }, narrowed] },
      examples: Object.fromEntries(
        statuses.map(({ error, meaning }) => [error, { value: { error, detail: meaning } }]),
      ),
    };
  }
  // A body may come too slowly, or not whole, for any route that reads one.
  const isLost = code === 400 && row.request !== null;
  if (isLost || slugs.length < statuses.length || code === 404 && statuses.length === 0) {
    content["text/plain"] = { schema: TEXT };
  }
  return content;
}

/** The request of a route's example, as a line for a shell in which G is the daemon's address. */
function curl(row: RouteRow, { options, servedPath }: OpenApiSource): string {
  const { query = {}, request } = EXAMPLES[row.name];
  const parameters = new URLSearchParams(query).toString();
  const target = servedPath(row, options.hookPrefix).replace("{id}", EXAMPLE_ID) +
    (parameters === "" ? "" : `?${parameters.replaceAll("%2F", "/")}`);
  const body = row.request === null
    ? []
    : row.request.schema === undefined
    ? ["-T", "FILE"]
    : ["-d", `'${JSON.stringify(request)}'`];
  return [
    "curl",
    ...(row.method === "POST" && body.length === 0 ? ["-X", "POST"] : []),
    ...(row.auth === "Bearer" ? ['-H "Authorization: Bearer $TOKEN"'] : []),
    ...body,
    `"$G${target}"`,
  ].join(" ");
}
