import { deepStrictEqual, doesNotMatch, match, ok, strictEqual } from "node:assert/strict";
import { json } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { bodyText, request } from "../support/raw_http.ts";
import { withDaemon, withDaemonAsRoot } from "../support/with_daemon.ts";

const START = "/v1/exec/start";

/** Asks whether the daemon still does what it is for. */
async function stillServes(daemon: Daemon): Promise<void> {
  const id = await daemon.exec(["echo", "fine"]);
  strictEqual((await daemon.outcome(id)).stdout, "fine\n");
  await daemon.ack(id);
}

withDaemonAsRoot.test("clients that vanish in mid-request leave nothing behind", async ({ daemon }) => {
  await stillServes(daemon);
  const before = daemon.fdCount();
  const whole = request("POST", START, [daemon.authorization], JSON.stringify({ exec_id: "x" }));
  for (let cut = 1; cut < whole.length; cut += 7) {
    using connection = await daemon.connect();
    await connection.send(whole.subarray(0, cut));
  }
  await eventually("their descriptors to be back", () => daemon.fdCount() <= before + 1);
  await stillServes(daemon);
  deepStrictEqual(daemon.log.lines.filter(({ level }) => level === "error"), []);
  strictEqual((await daemon.health()).execs, 2);
});

withDaemon.test("queries of any kind are taken or refused, never a crash", async ({ daemon }) => {
  const id = await daemon.exec("true");
  await daemon.follow(id);
  const queries = [
    "%",
    "%ff",
    "%00",
    "=",
    "&&&",
    "offset",
    "a=%zz",
    "x".repeat(50_000),
    "?",
    "\xff",
  ];
  for (const query of queries) {
    for (const path of [execPath(id), execPath(id, "stream"), "/v1/procs", "/v1/health"]) {
      using connection = await daemon.connect();
      const answer = await connection.ask("GET", `${path}?${query}`, [daemon.authorization]);
      ok(answer.status === 200 || answer.status === 400, `${answer.status} ${path}?${query}`);
      if (answer.status === 400) doesNotMatch(bodyText(answer), /\xff/);
    }
  }
  await stillServes(daemon);
});

Deno.test("nothing that a client sent in confidence is in the log, whatever went wrong", async () => {
  await using daemon = await Daemon.start();
  await daemon.bootstrap("t0ken-s3cret", { BASE: "s3cret-base" });
  const env = { OWN: "s3cret-env" };
  const id = await daemon.exec(["cat"], { stdin: true, env });
  await daemon.stdin(id, "s3cret-stdin", true);
  await daemon.outcome(id);
  await daemon.post(START, { exec_id: "y", command: ["/no/s3cret-program"], env });
  await daemon.post(START, '{"exec_id":"s3cret-broken');
  await daemon.hook("run", { runHookPayload: '{"agent_token":"s3cret-other"' });
  await daemon.fetch("/v1/procs", { headers: { authorization: "Bearer s3cret-wrong" } });
  await json(await daemon.fetch("/v1/health"));
  strictEqual(await daemon.stop(), 0);
  await daemon.log.ended;
  doesNotMatch(daemon.log.toString(), /s3cret/);
  for (const line of daemon.log.lines) {
    deepStrictEqual([typeof line.time, typeof line.msg], ["string", "string"]);
    match(line.level, /^(debug|info|warn|error)$/);
    ok(!Number.isNaN(Date.parse(line.time)));
  }
});
