import { deepStrictEqual, doesNotMatch, match, ok, strictEqual } from "node:assert/strict";
import { json, refused } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { bodyText, headerValues, latin1, request } from "../support/raw_http.ts";
import { withDaemon, withDaemonAsRoot } from "../support/with_daemon.ts";

const START = "/v1/exec/start";

/** Asks whether the daemon still does what it is for. */
async function stillServes(daemon: Daemon): Promise<void> {
  const id = await daemon.exec(["echo", "fine"]);
  strictEqual((await daemon.outcome(id)).stdout, "fine\n");
  await daemon.ack(id);
}

withDaemon.test("a token outside of ASCII is answered, not dropped", async ({ daemon }) => {
  for (const bytes of ["\xff\xfe\x80", "Bearer \xc3\x28", "Bearer \xf0\x9f\x94\x91"]) {
    using connection = await daemon.connect();
    const answer = await connection.ask("GET", "/v1/procs", [["Authorization", bytes]]);
    strictEqual(answer.status, 401);
    deepStrictEqual(headerValues(answer, "www-authenticate"), ["Bearer"]);
  }
});

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

withDaemon.test("numbers too large for their type are refused, those that fit are taken exactly", async ({ daemon }) => {
  const start = (field: string): Promise<Response> =>
    daemon.post(START, `{"exec_id":"n","command":["true"],${field}}`);
  const large = ["1e999", "-1e999", "9".repeat(5000), "4294967296", "18446744073709551616", "1.5"];
  for (const number of large) {
    for (const field of ["user", "group"]) {
      await refused(await start(`"${field}":${number}`), 400, "malformed_request");
    }
  }
  await refused(await start(`"timeout_sec":${"9".repeat(400)}`), 400, "malformed_request");
  strictEqual((await daemon.health()).execs, 0);
  strictEqual((await start(`"timeout_sec":${"9".repeat(300)}`)).status, 200);
});

withDaemon.test("lone surrogates, NULs and invalid UTF-8 reach no child", async ({ daemon }) => {
  const bodies: readonly Uint8Array[] = [
    latin1('{"exec_id":"x","command":["echo","\xff"]}'),
    latin1('{"exec_id":"x","command":["echo","\xed\xa0\x80"]}'),
    latin1('{"exec_id":"x","command":["echo","\xc0\x80"]}'),
    latin1('{"exec_id":"x","command":["echo","\\ud800\\ud800"]}'),
    latin1('{"exec_id":"x","command":["echo","\\u0000"]}'),
    latin1('{"exec_id":"x","command":["echo","\0"]}'),
    latin1('{"exec_id":"x","command":["echo"],"env":{"\\udc00":""}}'),
    latin1('{"exec_id":"\\udc00","command":["echo"]}'),
  ];
  for (const body of bodies) {
    await refused(await daemon.post(START, body), 400, "malformed_request");
  }
  strictEqual((await daemon.health()).execs, 0);
  const pair = await daemon.post(START, '{"exec_id":"x","command":["echo","\\ud83d\\udd11"]}');
  strictEqual(pair.status, 200);
  strictEqual((await daemon.outcome("x")).stdout, "🔑\n");
});

withDaemon.test("__proto__ is a name like any other in a body, an environment and as an id", async ({ daemon }) => {
  const body = '{"exec_id":"__proto__","command":["env"],' +
    '"env":{"__proto__":"one","constructor":"two"},"__proto__":{"shell":true}}';
  strictEqual((await daemon.post(START, body)).status, 200);
  const { stdout } = await daemon.outcome("__proto__");
  match(stdout, /^__proto__=one$/m);
  match(stdout, /^constructor=two$/m);
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
