import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { CLOSE_CODES } from "../../src/contract/tunnel.ts";
import { json } from "../support/answers.ts";
import { Daemon, runOnce } from "../support/daemon.ts";
import type { JsonSchema } from "../support/json_schema.ts";
import type { PublishedDocument } from "../support/published.ts";
import { pageRoutes, protocolPage, tableOf } from "../support/protocol_page.ts";
import { withStarted } from "../support/with_daemon.ts";

/** Fields that need not be there, of the types whose tables have no column of defaults. */
const OPTIONAL: Readonly<Record<string, readonly string[]>> = {
  PollResponse: ["exit_code", "signal", "stdout", "stderr", "truncated", "writers_may_be_alive"],
  StreamQuery: ["offset"],
  FsQuery: ["mode"],
  FileReadQuery: ["start_line", "end_line"],
  RunHookEnvelope: ["runHookPayload"],
  RunHook: ["env", "identity_seed", "identity_host_public_key"],
};

const LIMITS = tableOf("limit").map(([name = "", value]) => [name, Number(value)] as const);

withStarted.test("the document has exactly its thirteen keys and twelve limits, and needs no token", async ({ daemon }) => {
  const response = await daemon.fetch("/v1/schema");
  const document = await json<PublishedDocument>(response);
  const [sentence = ""] = /with the keys [^.]*/.exec(protocolPage()) ?? [];
  const keys = Array.from(sentence.matchAll(/`([^`]+)`/g), ([, key]) => key);
  strictEqual(keys.length, 13);
  deepStrictEqual(Object.keys(document).toSorted(), keys.sort());
  strictEqual(document.$schema, "https://json-schema.org/draft/2020-12/schema");
  strictEqual(document.protocol_version, "1");
  match(document.daemon_version, /^[0-9]+\.[0-9]+\.[0-9]+$/);
  strictEqual(document.daemon_version, (await daemon.guest.health()).version);
  strictEqual(document.version_header, "service-version");
  strictEqual(response.headers.get(document.version_header), document.daemon_version);
  strictEqual(document.hook_prefix, "/platform/runtime/v1");
  deepStrictEqual(document.definition_collisions, []);
  deepStrictEqual(Object.keys(document.auth).toSorted(), ["Bearer", "Open", "PlatformHook"]);
  ok(document.title !== "");
  match(document.generated_from, /\bsrc\/contract\b/);
  deepStrictEqual([document.unmatched_path.code, document.unmatched_path.error], [404, ""]);
  ok(document.unmatched_path.meaning.length > 20);
  deepStrictEqual(document.limits, Object.fromEntries(LIMITS));
  strictEqual(LIMITS.length, 12);
});

Deno.test("a limit that was configured is published as it is in force", async () => {
  const env = Object.fromEntries(
    LIMITS.map(([name], index) => [`GUESTD_${name.toUpperCase()}`, String(index + 1)]),
  );
  await using daemon = await Daemon.start({ env });
  const expected = LIMITS.map(([name], index) => [name, index + 1]);
  deepStrictEqual(daemon.document.limits, Object.fromEntries(expected));
});

Deno.test("prefix and header that were configured are published, served and in force", async () => {
  await using daemon = await Daemon.start({
    env: { GUESTD_HOOK_PREFIX: "/lambda/x~1", GUESTD_VERSION_HEADER: "X-Guest-Version" },
  });
  const { document } = daemon;
  deepStrictEqual([document.hook_prefix, document.version_header], [
    "/lambda/x~1",
    "X-Guest-Version",
  ]);
  strictEqual(document.routes[0]?.path, "/lambda/x~1/ready");
  const response = await daemon.post("/lambda/x~1/ready");
  deepStrictEqual(
    [
      response.status,
      response.headers.get("x-guest-version"),
      response.headers.get("service-version"),
    ],
    [200, document.daemon_version, null],
  );
  strictEqual((await daemon.post("/platform/runtime/v1/ready")).status, 404);
});

withStarted.test("the routes are the twenty of docs/protocol.md, in its order, with their statuses and slugs, each with all that a row has", ({ daemon }) => {
  const { routes, hook_prefix } = daemon.document;
  const seen = routes.map(({ method, path, auth, statuses }) => ({
    method,
    path: path.replace(hook_prefix, "{hook_prefix}"),
    auth,
    statuses: statuses.map(({ code, error }) => `${code} ${error}`.trim()).toSorted(),
  }));
  strictEqual(seen.length, 20);
  deepStrictEqual(
    seen,
    pageRoutes().map((route) => ({ ...route, statuses: route.statuses.toSorted() })),
  );
  const slugs = routes.flatMap(({ statuses }) => statuses).filter(({ error }) => error !== "");
  deepStrictEqual(
    new Set(slugs.map(({ code, error }) => `${error} ${code}`)),
    new Set(tableOf("slug").map(([slug, status]) => `${slug} ${status}`)),
  );
  for (const row of routes) {
    const keys = Object.keys(row).filter((key) => key !== "query" && key !== "sse_events");
    deepStrictEqual(
      keys.toSorted(),
      ["auth", "method", "path", "request", "response", "statuses", "summary"],
      row.path,
    );
    ok(row.summary.length > 10, row.path);
    for (const status of row.statuses) {
      deepStrictEqual(Object.keys(status).toSorted(), ["code", "error", "meaning"]);
      ok(status.meaning.length > 5, `${row.path} ${status.code}`);
    }
  }
});

withStarted.test("bodies, queries and events refer to the protocol's types", ({ daemon }) => {
  const carried = daemon.document.routes.flatMap((row) => {
    const found = [row.request, row.response].map((content) =>
      content === null
        ? "-"
        : `${content.content_type}${
          content.schema === undefined ? "" : ` ${nameOf(content.schema)}`
        }`
    );
    const query = row.query === undefined ? [] : [nameOf(row.query)];
    return [`${row.method} ${row.path.split("/").at(-1)}: ${[...found, ...query].join(", ")}`];
  });
  deepStrictEqual(carried, [
    ...["ready", "validate"].map((hook) => `POST ${hook}: -, -`),
    "POST run: application/json RunHookEnvelope, -",
    ...["suspend", "resume", "terminate"].map((hook) => `POST ${hook}: -, -`),
    "POST start: application/json StartRequest, application/json StartResponse",
    "GET {id}: -, application/json PollResponse",
    "GET stream: -, text/event-stream, StreamQuery",
    "POST stdin: application/json StdinRequest, application/json StdinResponse",
    "POST ack: -, application/json PollResponse",
    "POST kill: -, application/json KillResponse",
    "GET procs: -, application/json ProcsResponse",
    "GET tcp: -, -, TunnelQuery",
    "GET file: -, application/octet-stream, FileReadQuery",
    "PUT file: application/octet-stream, -, FsQuery",
    "GET tar: -, application/x-tar, FsQuery",
    "PUT tar: application/x-tar, -, FsQuery",
    "GET health: -, application/json Health",
    "GET schema: -, application/octet-stream",
  ]);
  const stream = daemon.document.routes.filter(({ sse_events }) => sse_events !== undefined);
  deepStrictEqual(
    stream.map(({ sse_events = {} }) =>
      Object.entries(sse_events).map(([name, schema]) => `${name} ${nameOf(schema)}`)
    ),
    [["output OutputEvent", "gap GapEvent", "exit ExitEvent"]],
  );
});

function nameOf(schema: JsonSchema): string {
  return String(schema["$ref"]).replace("#/$defs/", "");
}

withStarted.test("$defs has every type of docs/protocol.md with its fields, choices and defaults, and every $ref leads somewhere", ({ daemon }) => {
  const { $defs } = daemon.document;
  const types = protocolPage().matchAll(/^\| ([A-Z][a-z]\w+) \|/gm);
  deepStrictEqual(Object.keys($defs).toSorted(), Array.from(types, ([, name]) => name).sort());
  for (const [name, type] of Object.entries($defs)) {
    const rows = tableOf(name);
    const properties = (type["properties"] ?? {}) as Record<string, JsonSchema>;
    deepStrictEqual(rows.map(([first]) => first), type["enum"] ?? Object.keys(properties), name);
    for (const [field = "", , ...rest] of type["enum"] === undefined ? rows : []) {
      const [fallback] = rest.length === 2 ? rest : [];
      const needed = fallback === undefined
        ? OPTIONAL[name]?.includes(field) !== true
        : fallback === "required";
      strictEqual((type["required"] as string[]).includes(field), needed, `${name}.${field}`);
      const shown = properties[field]?.["default"];
      if (fallback !== undefined) {
        strictEqual(shown === undefined ? "required" : JSON.stringify(shown), fallback, field);
      }
    }
  }
  const text = JSON.stringify(daemon.document);
  for (const [, name = ""] of text.matchAll(/"\$ref":"#\/\$defs\/([^"]+)"/g)) {
    ok(Object.hasOwn($defs, name), name);
  }
});

Deno.test("the page gives the close codes of a tunnel", () => {
  const codes = Object.values(CLOSE_CODES).map(({ code }) => `${code}`);
  deepStrictEqual(tableOf("close code").map(([code]) => code), codes);
});

Deno.test("--print-schema prints what is served, --version the version, --help each setting", async () => {
  const printed = await runOnce(["--print-schema"]);
  await using daemon = await Daemon.start();
  const served = await (await daemon.fetch("/v1/schema")).text();
  deepStrictEqual([printed.code, printed.stdout, printed.stderr], [0, `${served}\n`, ""]);
  const { stdout } = await runOnce(["--version"]);
  strictEqual(stdout, `${daemon.document.daemon_version}\n`);
  const help = (await runOnce(["--help"])).stdout;
  for (const [name] of LIMITS) ok(help.includes(`GUESTD_${name.toUpperCase()}`), name);
});
