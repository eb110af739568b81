/**
 * How every status of every route comes about. A status that is published and not in here fails the roster test.
 *
 * @module
 */

import { BLOCK } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { getFile, getTar, putFile, putTar } from "../support/files_client.ts";
import { Published } from "../support/published.ts";
import type { Scratch } from "../support/scratch.ts";
import { archive } from "../support/tar_archive.ts";
import { UPGRADE } from "../support/tunnel_client.ts";
import { failingStdin } from "./failing_stdin.ts";

const START = "/v1/exec/start";
/** Makes an answer come about, with a daemon under {@link LIMITS} and a directory of its own. */
export type Provocation = (daemon: Daemon, scratch: Scratch) => Promise<Response>;

/** What a daemon is started with, so that its limits can be met. */
export const LIMITS: Readonly<Record<string, string>> = {
  GUESTD_MAX_BODY_BYTES: "3000000",
  GUESTD_MAX_TAR_MEMBERS: "3",
  GUESTD_STDIN_WRITE_TIMEOUT_SECS: "0.1",
};

const ARCHIVE = archive([{ name: "member", content: "content" }]);
const TOO_LARGE = new Uint8Array(3_000_001);

/** How each status of each route comes about, by method, path without the hook prefix, code and slug. */
export const PROVOCATIONS: Readonly<Record<string, Provocation>> = {
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
  "POST /v1/exec/start 413": (daemon) => daemon.post(START, TOO_LARGE),
  "POST /v1/exec/start 500 spawn_failed": (daemon) =>
    daemon.post(START, { exec_id: "never", command: ["/no/such/program"] }),
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
    await daemon.guest.ack(id);
    return await daemon.post(execPath(id, "ack"));
  },
  "POST /v1/exec/{id}/kill 200": async (daemon) =>
    daemon.post(execPath(await over(daemon), "kill")),
  "POST /v1/exec/{id}/kill 404 unknown_exec": (daemon) => daemon.post(execPath("nobody", "kill")),
  "GET /v1/procs 200": (daemon) => daemon.fetch("/v1/procs"),
  "GET /v1/tcp 101": (daemon) => upgraded(daemon, "/v1/tcp?port=9"),
  "GET /v1/tcp 400 malformed_request": (daemon) => daemon.fetch("/v1/tcp?port=65536"),
  "GET /v1/fs/file 200": (daemon, scratch) => getFile(daemon, scratch.file("f", "content")),
  "GET /v1/fs/file 400": (daemon, scratch) => getFile(daemon, scratch.path),
  "GET /v1/fs/file 404": (daemon, scratch) => getFile(daemon, scratch.join("absent")),
  "GET /v1/fs/file 500": (daemon) => getFile(daemon, "/dev/null"),
  "PUT /v1/fs/file 204": (daemon, scratch) => putFile(daemon, scratch.join("f"), "content"),
  "PUT /v1/fs/file 400": (daemon, scratch) =>
    putFile(daemon, scratch.join("f"), "content", { mode: "rw" }),
  "PUT /v1/fs/file 413": (daemon, scratch) => putFile(daemon, scratch.join("f"), TOO_LARGE),
  "PUT /v1/fs/file 500": (daemon) => putFile(daemon, "/dev/null", "content"),
  "PUT /v1/fs/file 507": (_, scratch) =>
    underReserve((daemon) => putFile(daemon, scratch.join("f"), "content")),
  "GET /v1/fs/tar 200": (daemon, scratch) => getTar(daemon, scratch.path),
  "GET /v1/fs/tar 400": (daemon, scratch) => getTar(daemon, scratch.file("f", "")),
  "GET /v1/fs/tar 404": (daemon, scratch) => getTar(daemon, scratch.join("absent")),
  "GET /v1/fs/tar 413": (daemon, scratch) => {
    for (const name of ["a", "b", "c"]) scratch.file(name, "");
    return getTar(daemon, scratch.path);
  },
  "GET /v1/fs/tar 500": (daemon, scratch) => getTar(daemon, scratch.join("x".repeat(256))),
  "PUT /v1/fs/tar 204": (daemon, scratch) => putTar(daemon, scratch.path, ARCHIVE),
  "PUT /v1/fs/tar 400": (daemon, scratch) => putTar(daemon, scratch.path, "no archive"),
  "PUT /v1/fs/tar 413": (daemon, scratch) => putTar(daemon, scratch.path, TOO_LARGE),
  "PUT /v1/fs/tar 500": (daemon) => putTar(daemon, "/dev/null", ARCHIVE),
  "PUT /v1/fs/tar 507": (_, scratch) =>
    underReserve((daemon) => putTar(daemon, scratch.path, ARCHIVE)),
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
  return daemon.exec(command, { stdin: "piped" });
}

function stdin(daemon: Daemon, id: string, bytes = 1): Promise<Response> {
  return daemon.post(execPath(id, "stdin"), { data_b64: new Uint8Array(bytes).toBase64() });
}

/** A daemon whose disk is under its reserve, whatever is free. */
async function underReserve(provoke: (daemon: Daemon) => Promise<Response>): Promise<Response> {
  const env = { GUESTD_DISK_RESERVE_BYTES: String(2 ** 52) };
  await using daemon = await Daemon.bootstrapped({ env });
  return await provoke(daemon);
}

/** The answer to an upgrade, which `fetch` cannot ask for, checked like any other. */
async function upgraded(daemon: Daemon, target: string): Promise<Response> {
  using connection = await daemon.connect(daemon.request("GET", target, UPGRADE));
  const { status, headers } = await connection.head();
  // No Response can be made with a status below 200.
  const answer = new Response(null, { headers: headers.map(([name, value]) => [name, value]) });
  Object.defineProperty(answer, "status", { value: status });
  return await new Published(daemon.document).checked("GET", target, answer);
}
