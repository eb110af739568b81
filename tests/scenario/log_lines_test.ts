/** What the log tells at `info` and above, each in one line, and what it never tells. */

import { deepStrictEqual, doesNotMatch, match, ok, strictEqual } from "node:assert/strict";
import { execPath, HOOK_PREFIX } from "../support/daemon.ts";
import type { Daemon } from "../support/daemon.ts";
import type { LogLine } from "../support/log_lines.ts";
import { request } from "../support/raw_http.ts";
import { archive } from "../support/tar_archive.ts";
import { withDaemon } from "../support/with_daemon.ts";

const START = "/v1/exec/start";

/** A line without what differs each time; seconds are looked at on the way. */
function fields({ time, level, seconds, ...rest }: LogLine): Record<string, unknown> {
  match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  ok(level === "info" || level === "warn");
  ok(seconds === undefined || (Number(seconds) >= 0 && Number(seconds) < 60));
  return rest;
}

async function line(daemon: Daemon, msg: string, id: string): Promise<Record<string, unknown>> {
  return fields(
    await daemon.log.until(
      `"${msg}" of ${id}`,
      (line) => line.msg === msg && line["exec_id"] === id,
    ),
  );
}

withDaemon.test("a command is told by a line for its start and one for its end, a kill by one more", async ({ daemon }) => {
  const user = Deno.uid() ?? 0;
  await daemon.exec(["/bin/echo", "s3cret"], { id: "a", env: { A: "s3cret" } });
  await daemon.exec("cat; exit 3 # s3cret", { id: "b", stdin: "piped" });
  await daemon.exec(["sleep", "infinity"], { id: "c" });
  await daemon.stdin("b", "s3cret", true);
  await daemon.guest.kill("c");
  for (const id of ["a", "b", "c"]) await daemon.outcome(id);
  await daemon.guest.kill("c");
  const pids = new Map((await daemon.guest.procs()).map(({ exec_id, pgid }) => [exec_id, pgid]));
  for (
    const [exec_id, program] of [["a", "/bin/echo"], ["b", "/bin/sh"], ["c", "sleep"]] as const
  ) {
    const started = { msg: "command started", exec_id, program, pid: pids.get(exec_id), user };
    deepStrictEqual(await line(daemon, "command started", exec_id), started);
  }
  const msg = "command ended";
  deepStrictEqual(await line(daemon, msg, "a"), { msg, exec_id: "a", exit_code: 0, bytes: 7 });
  deepStrictEqual(await line(daemon, msg, "b"), { msg, exec_id: "b", exit_code: 3, bytes: 6 });
  deepStrictEqual(await line(daemon, msg, "c"), { msg, exec_id: "c", signal: 15, bytes: 0 });
  await daemon.log.until("the second kill", (line) => line["killed"] === false);
  deepStrictEqual(daemon.log.withMessage("kill").map(fields), [
    { msg: "kill", exec_id: "c", killed: true },
    { msg: "kill", exec_id: "c", killed: false },
  ]);
  await daemon.logWritten();
  strictEqual(daemon.log.lines.filter(({ level }) => level === "warn").length, 0);
  doesNotMatch(daemon.log.toString(), /s3cret|czNjcmV0/);
});

withDaemon.test("a refused start is told by its id, its program and the reason", async ({ daemon }) => {
  const long = "x".repeat(300);
  const cases:
    readonly (readonly [request: unknown, exec_id: unknown, program: unknown, reason: RegExp])[] = [
      [
        { exec_id: "a", command: ["/no/such s3cret"] },
        "a",
        "/no/such",
        /^cannot execute the program: ENOENT/,
      ],
      [{ exec_id: "b", command: ["/no\tsuch", "s3cret"] }, "b", "/no", /ENOENT/],
      [
        { exec_id: "c", command: ["x s3cret"], shell: true, cwd: "/no" },
        "c",
        "/bin/sh",
        /directory: ENOENT/,
      ],
      [{ exec_id: "d", command: ["true", 7] }, "d", "true", /^command\[1\] must be a string$/],
      [{ exec_id: 7, command: "s3cret" }, undefined, undefined, /exec_id/],
      [
        { exec_id: long, command: [long] },
        `${"x".repeat(200)}…`,
        `${"x".repeat(200)}…`,
        /ENAMETOOLONG|ENOENT/,
      ],
      ['{"exec_id":"s3cret"', undefined, undefined, /not valid JSON at position 19/],
      [new Uint8Array(17 << 20), undefined, undefined, /16 MiB/],
    ];
  for (const [index, [body, exec_id, program, reason]] of cases.entries()) {
    strictEqual((await daemon.post(START, body)).status >= 400, true);
    await daemon.log.until(
      "the refusal",
      () => daemon.log.withMessage("start refused").length > index,
    );
    const line = daemon.log.withMessage("start refused").at(-1);
    deepStrictEqual([line?.["exec_id"], line?.["program"]], [exec_id, program]);
    match(String(line?.["reason"]), reason);
  }
  await daemon.logWritten();
  doesNotMatch(daemon.log.toString(), /s3cret|x{201}/);
});

withDaemon.test("a retried start that differs from the first is a warning that names the fields, the same one is none", async ({ daemon }) => {
  const first = {
    exec_id: "a",
    command: ["/bin/echo", "s3cret"],
    env: { A: "s3cret", B: "2" },
    timeout_sec: 100,
  };
  const retried = async (more: Record<string, unknown>): Promise<void> => {
    strictEqual((await daemon.post(START, { ...first, ...more })).status, 200);
  };
  await retried({});
  await retried({});
  await retried({ env: { B: "2", A: "s3cret" }, cwd: null, shell: false, user: null });
  const cases: readonly (readonly [Record<string, unknown>, string])[] = [
    [{ command: ["/bin/echo", "s3cre7"] }, "command"],
    [{ command: ["/bin/echo s3cret"], shell: true }, "command, shell"],
    [{ env: { A: "s3cre7", B: "2" } }, "env"],
    [{ env: { A: "2", B: "s3cret" } }, "env"],
    [{ env: {}, cwd: "/" }, "cwd, env"],
    [{ user: 0 }, "user"],
    [{ group: 7, stdin: true }, "group, stdin"],
    [{ timeout_sec: 101, reap_group_on_exit: true }, "timeout_sec, reap_group_on_exit"],
  ];
  for (const [more] of cases) await retried(more);
  const msg = "a retried start differs from the first, which counts";
  await daemon.log.until("the last", () => daemon.log.withMessage(msg).length >= cases.length);
  deepStrictEqual(
    daemon.log.withMessage(msg).map(({ level, exec_id, fields }) => [level, exec_id, fields]),
    cases.map(([, fields]) => ["warn", "a", fields]),
  );
  strictEqual(daemon.log.withMessage("command started").length, 1);
  await daemon.logWritten();
  doesNotMatch(daemon.log.toString(), /s3cre/);
});

withDaemon.test("fields that the protocol does not know are a warning that names them", async ({ daemon }) => {
  const body = {
    exec_id: "a",
    command: ["cat"],
    stdin: true,
    environment: { A: "s3cret" },
    CWD: "/s3cret",
  };
  strictEqual((await daemon.post(START, body)).status, 200);
  strictEqual(
    (await daemon.post(execPath("a", "stdin"), { data: "s3cret", signal: "eof" })).status,
    200,
  );
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`field${n}`, "s3cret"]));
  strictEqual((await daemon.post(START, { ...many, exec_id: "b" })).status, 400);
  const msg = "a request has unknown fields";
  await daemon.log.until("the last", () => daemon.log.withMessage(msg).length === 3);
  const seen = daemon.log.withMessage(msg);
  deepStrictEqual(
    seen.slice(0, 2).map(({ level, exec_id, fields }) => [level, exec_id, fields]),
    [["warn", "a", "environment, CWD"], ["warn", "a", "data"]],
  );
  match(String(seen[2]?.["fields"]), /^field0, field1, .{180,190}…$/);
  await daemon.logWritten();
  doesNotMatch(daemon.log.toString(), /s3cret/);
});

withDaemon.test("each transfer is one line: what, where, how much, how long, and why not", async ({ daemon, scratch }) => {
  const content = "s3cret".repeat(100_000);
  const ask = async (
    method: string,
    route: string,
    path: string,
    body?: BodyInit,
  ): Promise<void> => {
    const init = { method, body: body ?? null };
    const answer = await daemon.fetch(`/v1/fs/${route}?path=${encodeURIComponent(path)}`, init);
    await answer.body?.pipeTo(new WritableStream());
  };
  const tree = archive([{ name: "member", content }]);
  const [file, into] = [scratch.join("new/file"), scratch.join("tree")];
  await ask("PUT", "file", file, content);
  await ask("GET", "file", file);
  await ask("PUT", "tar", into, tree);
  await ask("GET", "tar", into);
  await ask("GET", "file", scratch.join("none"));
  await ask("PUT", "file", into, "s3cret");
  await ask("PUT", "tar", into, "s3cret");
  {
    using connection = await daemon.connect();
    const target = `/v1/fs/file?path=${file}`;
    await connection.send(
      request("PUT", target, [daemon.authorization, ["Content-Length", "9"]], "x"),
    );
  }
  const lines = (): LogLine[] => daemon.log.lines.filter((line) => "transfer" in line);
  await daemon.log.until("the last", () => lines().length === 8);
  const bytes = content.length;
  deepStrictEqual(
    lines().slice(0, 4).map(fields).map((line) => ({
      ...line,
      bytes: Number(line["bytes"]) >= bytes,
    })),
    [["write file", file], ["read file", file], ["write tree", into], ["read tree", into]]
      .map(([transfer, path]) => ({ msg: "transfer done", transfer, path, bytes: true })),
  );
  const rest = lines().slice(4).map((
    line,
  ) => [line.level, line.msg, line["transfer"], line["status"]]);
  deepStrictEqual(rest.slice(0, 3), [
    ["info", "a transfer was refused", "read file", 404],
    ["warn", "a transfer failed", "write file", 500],
    ["info", "a transfer was refused", "write tree", 400],
  ]);
  match(String(rest[3]), /^info,a transfer was (refused|stopped),write file,/);
  await daemon.logWritten();
  doesNotMatch(daemon.log.toString(), /s3cret/);
});

withDaemon.test("each bootstrap is a line with its outcome", async ({ daemon }) => {
  const hook = async (payload: string): Promise<void> => {
    const answer = await daemon.post(`${HOOK_PREFIX}/run`, { runHookPayload: payload });
    await answer.body?.cancel();
  };
  await hook(JSON.stringify({ agent_token: daemon.token }));
  await hook('{"agent_token":"s3cret"}');
  await hook('{"agent_token":s3cret}');
  await daemon.log.until("the last", (line) => line["outcome"] === "malformed");
  deepStrictEqual(
    daemon.log.withMessage("hook").map(({ hook, outcome, reason }) => [hook, outcome, reason]),
    [
      ["run", "installed", undefined],
      ["run", "replayed", undefined],
      ["run", "refused", undefined],
      ["run", "malformed", "runHookPayload is not valid JSON at position 15"],
    ],
  );
  await daemon.logWritten();
  doesNotMatch(daemon.log.toString(), /s3cret/);
});
