import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { json } from "../support/answers.ts";
import { Daemon, runOnce } from "../support/daemon.ts";
import type { JsonSchema } from "../support/json_schema.ts";
import type { PublishedDocument, PublishedRow } from "../support/published.ts";
import { ROSTER } from "./roster.ts";

const KEYS = [
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
];

const LIMITS = {
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
};

/** Fields of each type, in the protocol's words; a `?` marks those that need not be there. */
const TYPES: Readonly<Record<string, readonly string[]>> = {
  StartRequest: [
    "exec_id",
    "command",
    "shell?",
    "cwd?",
    "env?",
    "user?",
    "group?",
    "timeout_sec?",
    "stdin?",
    "reap_group_on_exit?",
  ],
  StartResponse: ["exec_id", "phase"],
  PollResponse: [
    "exec_id",
    "phase",
    "exit_code?",
    "signal?",
    "stdout?",
    "stderr?",
    "truncated?",
    "writers_may_be_alive?",
  ],
  KillResponse: ["exec_id", "killed"],
  StdinRequest: ["data_b64?", "signal?"],
  StdinResponse: ["exec_id", "written", "eof"],
  StreamQuery: ["offset?"],
  OutputEvent: ["offset", "stream", "output"],
  GapEvent: ["from", "to"],
  ExitEvent: ["exit_code", "signal", "truncated", "writers_may_be_alive", "offset"],
  FsQuery: ["path", "mode?"],
  FileReadQuery: ["path", "start_line?", "end_line?"],
  TunnelQuery: ["port", "identity?"],
  Health: [
    "version",
    "bootstrapped",
    "disk",
    "identity_degraded",
    "identity_repaired",
    "busy",
    "execs",
    "hooks",
    "hooks_dropped",
  ],
  DiskHealth: ["available_bytes", "reserve_bytes", "under_pressure"],
  HookObservation: ["hook", "fired_at"],
  ProcsResponse: ["procs"],
  ProcGroup: ["exec_id", "pgid", "started_at", "child_exited", "reap", "pids"],
  RunHookEnvelope: ["runHookPayload?"],
  RunHook: ["agent_token", "env?"],
  ErrorBody: ["error", "detail"],
};

const SLUGS = [
  "malformed_request",
  "unknown_exec",
  "still_running",
  "already_acked",
  "spawn_failed",
  "stdin_write_timeout",
  "stdin_not_requested",
  "stdin_closed",
  "stdin_write_too_large",
  "stdin_write_failed",
];

Deno.test("the document has exactly its thirteen keys and twelve limits, and needs no token", async () => {
  await using daemon = await Daemon.start();
  const response = await daemon.fetch("/v1/schema");
  const document = await json<PublishedDocument>(response);
  deepStrictEqual(Object.keys(document).toSorted(), KEYS);
  strictEqual(document.$schema, "https://json-schema.org/draft/2020-12/schema");
  strictEqual(document.protocol_version, "1");
  match(document.daemon_version, /^[0-9]+\.[0-9]+\.[0-9]+$/);
  strictEqual(document.daemon_version, (await daemon.health()).version);
  strictEqual(document.version_header, "service-version");
  strictEqual(response.headers.get(document.version_header), document.daemon_version);
  strictEqual(document.hook_prefix, "/platform/runtime/v1");
  deepStrictEqual(document.definition_collisions, []);
  deepStrictEqual(Object.keys(document.auth).toSorted(), ["Bearer", "Open", "PlatformHook"]);
  ok(document.title !== "");
  match(document.generated_from, /\bsrc\/contract\b/);
  deepStrictEqual([document.unmatched_path.code, document.unmatched_path.error], [404, ""]);
  ok(document.unmatched_path.meaning.length > 20);
  deepStrictEqual(document.limits, LIMITS);
});

Deno.test("a limit that was configured is published as it is in force", async () => {
  const env = Object.fromEntries(
    Object.keys(LIMITS).map((name, index) => [`GUESTD_${name.toUpperCase()}`, String(index + 1)]),
  );
  await using daemon = await Daemon.start({ env });
  const expected = Object.keys(LIMITS).map((name, index) => [name, index + 1]);
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

Deno.test("the routes are the protocol's twenty, in its order, each with all that a row has", async () => {
  await using daemon = await Daemon.start();
  const seen = daemon.document.routes.map((row) => ({
    route: `${row.method} ${row.path.replace("/platform/runtime/v1", "{hook_prefix}")}`,
    auth: row.auth,
    statuses: row.statuses.map(({ code, error }) => `${code} ${error}`.trim()).toSorted(),
  }));
  deepStrictEqual(
    seen,
    ROSTER.map(({ route, auth, statuses }) => ({ route, auth, statuses: statuses.toSorted() })),
  );
  for (const row of daemon.document.routes) {
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
      ok(status.error === "" || SLUGS.includes(status.error));
    }
  }
});

Deno.test("bodies, queries and events refer to the protocol's types", async () => {
  await using daemon = await Daemon.start();
  const carried = daemon.document.routes.flatMap((row) => {
    const found = [row.request, row.response].map((content) =>
      content === null
        ? "-"
        : `${content.content_type}${
          content.schema === undefined ? "" : ` ${nameOf(content.schema)}`
        }`
    );
    const query = row.query === undefined ? [] : [nameOf(row.query)];
    return [`${row.method} ${short(row)}: ${[...found, ...query].join(", ")}`];
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

function short(row: PublishedRow): string {
  return row.path.split("/").at(-1) ?? "";
}

Deno.test("$defs has every type of the protocol with its fields and defaults, and every $ref leads somewhere", async () => {
  await using daemon = await Daemon.start();
  const { $defs } = daemon.document;
  const names = [...Object.keys(TYPES), "Phase", "StreamKind"];
  deepStrictEqual(Object.keys($defs).toSorted(), names.toSorted());
  for (const [name, fields] of Object.entries(TYPES)) {
    const properties = Object.keys($defs[name]?.["properties"] ?? {});
    const needed = $defs[name]?.["required"] as string[];
    for (const field of fields) {
      const bare = field.replace("?", "");
      ok(properties.includes(bare), `${name}.${bare}`);
      strictEqual(needed.includes(bare), bare === field, `${name}.${bare} required`);
    }
    if (name !== "RunHook") strictEqual(properties.length, fields.length, name);
  }
  deepStrictEqual($defs["Phase"]?.["enum"], ["running", "exited", "acked"]);
  deepStrictEqual($defs["StreamKind"]?.["enum"], ["stdout", "stderr"]);
  const text = JSON.stringify(daemon.document);
  for (const [, name = ""] of text.matchAll(/"\$ref":"#\/\$defs\/([^"]+)"/g)) {
    ok(Object.hasOwn($defs, name), name);
  }
  const start = $defs["StartRequest"]?.["properties"] as Record<string, JsonSchema>;
  const shown = Object.entries(start).map(([name, field]) => [name, field["default"]]);
  deepStrictEqual(Object.fromEntries(shown), {
    exec_id: undefined,
    command: undefined,
    shell: false,
    cwd: null,
    env: {},
    user: null,
    group: null,
    timeout_sec: null,
    stdin: false,
    reap_group_on_exit: false,
  });
});

Deno.test("--print-schema prints what is served, --version the version, --help each setting", async () => {
  const printed = await runOnce(["--print-schema"]);
  await using daemon = await Daemon.start();
  const served = await (await daemon.fetch("/v1/schema")).text();
  deepStrictEqual([printed.code, printed.stdout, printed.stderr], [0, `${served}\n`, ""]);
  const { stdout } = await runOnce(["--version"]);
  strictEqual(stdout, `${daemon.document.daemon_version}\n`);
  const help = (await runOnce(["--help"])).stdout;
  for (const name of Object.keys(LIMITS)) ok(help.includes(`GUESTD_${name.toUpperCase()}`), name);
});
