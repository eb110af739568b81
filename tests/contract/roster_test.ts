import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { BLOCK } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import type { PublishedRow } from "../support/published.ts";
import { failingStdin } from "./failing_stdin.ts";

const START = "/v1/exec/start";
/** The statuses of these are provoked by their own tests, and not yet listed here. */
const ELSEWHERE = /^GET \/v1\/tcp$|\/v1\/fs\//;

type Provocation = (daemon: Daemon) => Promise<Response>;

/** How each status of each route comes about, by the name that {@link keysOf} gives it. */
const PROVOCATIONS: Readonly<Record<string, Provocation>> = {
  "POST /ready 200": (daemon) => daemon.hook("ready"),
  "POST /validate 200": (daemon) => daemon.hook("validate"),
  "POST /suspend 200": (daemon) => daemon.hook("suspend"),
  "POST /resume 200": (daemon) => daemon.hook("resume"),
  "POST /terminate 200": (daemon) => daemon.hook("terminate"),
  "POST /run 200": (daemon) => daemon.hook("run", runHook(daemon.token ?? "")),
  "POST /run 400": (daemon) => daemon.hook("run", {}),
  "POST /run 409": (daemon) => daemon.hook("run", runHook("another")),
  "POST /v1/exec/start 200": (daemon) => daemon.post(START, { exec_id: "new", command: ["true"] }),
  "POST /v1/exec/start 400 malformed_request": (daemon) => daemon.post(START, "{"),
  "POST /v1/exec/start 413": (daemon) => daemon.post(START, new Uint8Array(3_000_001)),
  "POST /v1/exec/start 500 spawn_failed": (daemon) =>
    daemon.post(START, { exec_id: "new", command: ["/no/such/program"] }),
  "GET /v1/exec/{id} 200": async (daemon) => daemon.fetch(execPath(await over(daemon))),
  "GET /v1/exec/{id} 404 unknown_exec": (daemon) => daemon.fetch(execPath("nobody")),
  "GET /v1/exec/{id}/stream 200": async (daemon) =>
    daemon.fetch(execPath(await over(daemon), "stream")),
  "GET /v1/exec/{id}/stream 400 malformed_request": async (daemon) =>
    daemon.fetch(`${execPath(await over(daemon), "stream")}?offset=-1`),
  "GET /v1/exec/{id}/stream 404 unknown_exec": (daemon) =>
    daemon.fetch(execPath("nobody", "stream")),
  "POST /v1/exec/{id}/stdin 200": async (daemon) => stdin(daemon, await reading(daemon, ["cat"])),
  "POST /v1/exec/{id}/stdin 400 malformed_request": async (daemon) =>
    daemon.post(execPath(await reading(daemon, ["cat"]), "stdin"), { signal: "term" }),
  "POST /v1/exec/{id}/stdin 404 unknown_exec": (daemon) => stdin(daemon, "nobody"),
  "POST /v1/exec/{id}/stdin 408 stdin_write_timeout": async (daemon) =>
    stdin(daemon, await reading(daemon, ["sleep", "infinity"]), 1_000_000),
  "POST /v1/exec/{id}/stdin 409 stdin_not_requested": async (daemon) =>
    stdin(daemon, await over(daemon)),
  "POST /v1/exec/{id}/stdin 410 stdin_closed": async (daemon) => {
    const id = await reading(daemon, ["cat"]);
    await daemon.stdin(id, "", true);
    return await stdin(daemon, id);
  },
  "POST /v1/exec/{id}/stdin 413 stdin_write_too_large": async (daemon) =>
    stdin(daemon, await reading(daemon, ["cat"]), 1_048_577),
  "POST /v1/exec/{id}/stdin 500 stdin_write_failed": () => failingStdin(),
  "POST /v1/exec/{id}/ack 200": async (daemon) => daemon.post(execPath(await over(daemon), "ack")),
  "POST /v1/exec/{id}/ack 404 unknown_exec": (daemon) => daemon.post(execPath("nobody", "ack")),
  "POST /v1/exec/{id}/ack 409 still_running": async (daemon) =>
    daemon.post(execPath(await daemon.exec(BLOCK), "ack")),
  "POST /v1/exec/{id}/ack 409 already_acked": async (daemon) => {
    const id = await over(daemon);
    await daemon.ack(id);
    return await daemon.post(execPath(id, "ack"));
  },
  "POST /v1/exec/{id}/kill 200": async (daemon) =>
    daemon.post(execPath(await over(daemon), "kill")),
  "POST /v1/exec/{id}/kill 404 unknown_exec": (daemon) => daemon.post(execPath("nobody", "kill")),
  "GET /v1/procs 200": (daemon) => daemon.fetch("/v1/procs"),
  "GET /v1/health 200": (daemon) => daemon.fetch("/v1/health"),
  "GET /v1/schema 200": (daemon) => daemon.fetch("/v1/schema"),
};

const runHook = (agent_token: string): unknown => ({
  runHookPayload: JSON.stringify({ agent_token }),
});

async function over(daemon: Daemon): Promise<string> {
  const id = await daemon.exec("echo over");
  await daemon.follow(id);
  return id;
}

function reading(daemon: Daemon, command: readonly string[]): Promise<string> {
  return daemon.exec(command, { stdin: true });
}

function stdin(daemon: Daemon, id: string, bytes = 1): Promise<Response> {
  return daemon.post(execPath(id, "stdin"), { data_b64: new Uint8Array(bytes).toBase64() });
}

/** A name for each status of a row. */
function keysOf(row: PublishedRow, hookPrefix: string): string[] {
  return row.statuses.map(({ code, error }) =>
    `${row.method} ${row.path.replace(hookPrefix, "")} ${code} ${error}`.trim()
  );
}

/** The 503 and 401 of any Bearer route, provoked alike. */
async function gate(row: PublishedRow, code: 503 | 401): Promise<Response> {
  await using daemon = code === 503 ? await Daemon.start() : await Daemon.bootstrapped();
  const authorization = code === 503 ? "" : "Bearer another";
  const init = { method: row.method, headers: { authorization } };
  return await daemon.fetch(row.path.replace("{id}", "x"), init);
}

const LIMITS = { GUESTD_MAX_BODY_BYTES: "3000000", GUESTD_STDIN_WRITE_TIMEOUT_SECS: "0.1" };

Deno.test("every status that a route publishes comes about, with its slug and in its shape", async (test) => {
  await using reference = await Daemon.start();
  const { routes, hook_prefix } = reference.document;
  const provoked = new Set<string>();
  for (const row of routes) {
    if (ELSEWHERE.test(`${row.method} ${row.path}`)) continue;
    for (const [index, key] of keysOf(row, hook_prefix).entries()) {
      provoked.add(key);
      await test.step(key, async () => {
        const status = row.statuses[index];
        ok(status !== undefined);
        const { code, error } = status;
        if (row.auth === "Bearer" && (code === 503 || code === 401)) {
          const answer = await gate(row, code);
          strictEqual(answer.status, code);
          return;
        }
        const provoke = PROVOCATIONS[key];
        ok(provoke !== undefined, "no test knows how this status comes about");
        await using daemon = await Daemon.bootstrapped({ env: LIMITS });
        const answer = await provoke(daemon);
        // The shape was checked against the schema when it was fetched.
        strictEqual(answer.status, code);
        const body = await answer.text();
        if (error !== "") strictEqual(JSON.parse(body).error, error);
        if (code === 200 && row.response === null) strictEqual(body, "");
        if (key.includes("/terminate")) await daemon.end();
      });
    }
  }
  const unknown = Object.keys(PROVOCATIONS).filter((key) => !provoked.has(key));
  deepStrictEqual(unknown, [], "statuses that no route publishes");
});
