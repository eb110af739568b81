import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { schemaDocument } from "../../src/contract/document.ts";
import { encodeJson } from "../../src/contract/json.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { SLUGS } from "../../src/contract/refusal.ts";
import { ROUTE_NAMES, ROWS } from "../../src/contract/rows.ts";
import { describe, descriptionsFile } from "../../scripts/descriptions.ts";
import { readSource } from "../support/source_files.ts";

const HOOKS = "/platform/runtime/v1";

interface PublishedRoute {
  readonly method: string;
  readonly path: string;
  readonly auth: string;
  readonly summary: string;
  readonly request: { content_type: string; schema?: { $ref: string } } | null;
  readonly response: { content_type: string; schema?: { $ref: string } } | null;
  readonly statuses: { code: number; error: string; meaning: string }[];
  readonly query?: { $ref: string };
  readonly sse_events?: Record<string, { $ref: string }>;
}

interface Described {
  readonly description: string;
  readonly properties?: Record<string, Described>;
}

const source = encodeJson(
  schemaDocument({ limits: DEFAULT_LIMITS, hookPrefix: HOOKS, versionHeader: "service-version" }),
);
const document = JSON.parse(source);
const routes: PublishedRoute[] = document.routes;

/** The roster of the protocol with the statuses of its tables: code and slug. */
const PROTOCOL: [method: string, path: string, auth: string, statuses: string][] = [
  ["POST", `${HOOKS}/ready`, "PlatformHook", "200"],
  ["POST", `${HOOKS}/validate`, "PlatformHook", "200"],
  ["POST", `${HOOKS}/run`, "PlatformHook", "200 400 409"],
  ["POST", `${HOOKS}/suspend`, "PlatformHook", "200"],
  ["POST", `${HOOKS}/resume`, "PlatformHook", "200"],
  ["POST", `${HOOKS}/terminate`, "PlatformHook", "200"],
  [
    "POST",
    "/v1/exec/start",
    "Bearer",
    "200 400:malformed_request 401 413 500:spawn_failed 503",
  ],
  ["GET", "/v1/exec/{id}", "Bearer", "200 401 404:unknown_exec 503"],
  [
    "GET",
    "/v1/exec/{id}/stream",
    "Bearer",
    "200 400:malformed_request 401 404:unknown_exec 503",
  ],
  [
    "POST",
    "/v1/exec/{id}/stdin",
    "Bearer",
    "200 400:malformed_request 401 404:unknown_exec 408:stdin_write_timeout " +
    "409:stdin_not_requested 410:stdin_closed 413:stdin_write_too_large 500:stdin_write_failed 503",
  ],
  [
    "POST",
    "/v1/exec/{id}/ack",
    "Bearer",
    "200 401 404:unknown_exec 409:already_acked 409:still_running 503",
  ],
  ["POST", "/v1/exec/{id}/kill", "Bearer", "200 401 404:unknown_exec 503"],
  ["GET", "/v1/procs", "Bearer", "200 401 503"],
  ["GET", "/v1/tcp", "Bearer", "101 400:malformed_request 401 503"],
  ["GET", "/v1/fs/file", "Bearer", "200 400 401 404 500 503"],
  ["PUT", "/v1/fs/file", "Bearer", "204 400 401 413 500 503 507"],
  ["GET", "/v1/fs/tar", "Bearer", "200 400 401 404 413 500 503"],
  ["PUT", "/v1/fs/tar", "Bearer", "204 400 401 413 500 503 507"],
  ["GET", "/v1/health", "Open", "200"],
  ["GET", "/v1/schema", "Open", "200"],
];

Deno.test("the document has exactly the protocol's top-level keys", () => {
  deepStrictEqual(Object.keys(document).sort(), [
    "$defs",
    "$schema",
    "auth",
    "daemon_version",
    "definition_collisions",
    "generated_from",
    "hook_prefix",
    "limits",
    "protocol_version",
    "routes",
    "title",
    "unmatched_path",
    "version_header",
  ]);
  strictEqual(document.$schema, "https://json-schema.org/draft/2020-12/schema");
  strictEqual(document.protocol_version, "1");
  strictEqual(document.version_header, "service-version");
  strictEqual(document.hook_prefix, HOOKS);
  strictEqual(document.unmatched_path.code, 404);
  deepStrictEqual(document.definition_collisions, []);
  deepStrictEqual(Object.keys(document.auth).sort(), ["Bearer", "Open", "PlatformHook"]);
});

Deno.test("the document lists the protocol's routes with the statuses of its tables", () => {
  const published = routes.map(({ method, path, auth, statuses }) => {
    const codes = statuses.map(({ code, error }) => error === "" ? `${code}` : `${code}:${error}`);
    return [method, path, auth, codes.sort().join(" ")];
  });
  deepStrictEqual(published, PROTOCOL);
});

Deno.test("each route has what the protocol lists, in sentences", () => {
  for (const route of routes) {
    const optional = ["query", "sse_events"].filter((key) => key in route);
    deepStrictEqual(
      Object.keys(route).sort(),
      ["auth", "method", "path", "request", "response", "statuses", "summary", ...optional].sort(),
    );
    ok(route.summary.length > 10);
    for (const status of route.statuses) {
      deepStrictEqual(Object.keys(status).sort(), ["code", "error", "meaning"]);
      ok(status.meaning.length > 5);
      if (status.error !== "") ok(Object.hasOwn(SLUGS, status.error));
    }
  }
});

Deno.test("query and events are on the routes that have them", () => {
  const withQuery = routes.flatMap(({ method, path, query }) =>
    query === undefined ? [] : [[`${method} ${path}`, query.$ref]]
  );
  deepStrictEqual(withQuery, [
    ["GET /v1/exec/{id}/stream", "#/$defs/StreamQuery"],
    ["GET /v1/tcp", "#/$defs/TunnelQuery"],
    ["GET /v1/fs/file", "#/$defs/FileReadQuery"],
    ["PUT /v1/fs/file", "#/$defs/FsQuery"],
    ["GET /v1/fs/tar", "#/$defs/FsQuery"],
    ["PUT /v1/fs/tar", "#/$defs/FsQuery"],
  ]);
  const events = routes.flatMap(({ path, sse_events }) =>
    sse_events === undefined ? [] : [[path, sse_events]]
  );
  deepStrictEqual(events, [["/v1/exec/{id}/stream", {
    output: { $ref: "#/$defs/OutputEvent" },
    gap: { $ref: "#/$defs/GapEvent" },
    exit: { $ref: "#/$defs/ExitEvent" },
  }]]);
});

Deno.test("the schema's own route declares an octet stream", () => {
  deepStrictEqual(routes.at(-1)?.response, { content_type: "application/octet-stream" });
});

Deno.test("$defs has every type of the protocol, and each reference resolves", () => {
  deepStrictEqual(
    Object.keys(document.$defs).sort(),
    [
      "DiskHealth",
      "ErrorBody",
      "ExitEvent",
      "FileReadQuery",
      "FsQuery",
      "GapEvent",
      "Health",
      "HookObservation",
      "KillResponse",
      "OutputEvent",
      "Phase",
      "PollResponse",
      "ProcGroup",
      "ProcsResponse",
      "RunHook",
      "RunHookEnvelope",
      "StartRequest",
      "StartResponse",
      "StdinRequest",
      "StdinResponse",
      "StreamKind",
      "StreamQuery",
      "TunnelQuery",
    ],
  );
  const references = [...source.matchAll(/"\$ref":"#\/\$defs\/([^"]+)"/g)].map((match) => match[1]);
  ok(references.length > 20);
  for (const name of references) ok(Object.hasOwn(document.$defs, name ?? ""), name);
});

Deno.test("the descriptions are the comments of the contract, and every field has one", () => {
  const committed = readSource("src/contract/descriptions.json");
  strictEqual(committed, descriptionsFile(), "./build.sh setup copies them");
  for (
    const [name, { description, properties = {} }] of Object.entries<Described>(document.$defs)
  ) {
    ok(description.length > 5, name);
    for (const field of Object.values(properties)) ok(field.description.length > 5, name);
  }
  match(document.$defs.KillResponse.properties.killed.description, /zombies are not live\.$/);
});

Deno.test("a comment is told from what stands in it, and from one of something else", () => {
  const source = [
    "/** Not: a constant. */\nexport const A = 1;",
    "/**\n * Of two\n * lines, {@link B}.\n */\nexport class A extends object({",
    "  /** One. */\n  one: text(),\n  two: text(),\n  /**\n   * Th\n   * ree.\n   */\n  three: text(),",
  ].join("\n\n");
  deepStrictEqual([...describe(source)], [
    ["A", "Of two lines, `B`."],
    ["A.one", "One."],
    ["A.three", "Th ree."],
  ]);
});

Deno.test("the limits in force are published under the protocol's twelve names", () => {
  deepStrictEqual(document.limits, {
    max_body_bytes: 536870912,
    max_output_bytes: 8388608,
    max_stdin_write_bytes: 1048576,
    stdin_write_timeout_secs: 5,
    max_tar_members: 100000,
    max_tar_bytes: 8589934592,
    stream_replay_bytes: 1048576,
    sse_keepalive_secs: 15,
    output_linger_secs: 5,
    exec_ttl_secs: 900,
    kill_grace_secs: 10,
    max_drain_bytes: 65536,
  });
  const other = schemaDocument({
    limits: { ...DEFAULT_LIMITS, exec_ttl_secs: 1 },
    hookPrefix: "/h/$&",
    versionHeader: "X-V",
  }) as { limits: { exec_ttl_secs: number }; routes: { path: string }[]; version_header: string };
  strictEqual(other.limits.exec_ttl_secs, 1);
  strictEqual(other.version_header, "X-V");
  strictEqual(other.routes[0]?.path, "/h/$&/ready");
});

Deno.test("the rows are the 20 names, each once and in order", () => {
  deepStrictEqual(ROWS.map(({ name }) => name), [...ROUTE_NAMES]);
});

Deno.test("a uint64's bound is published exactly", () => {
  ok(source.includes('"maximum":18446744073709551615'));
});
