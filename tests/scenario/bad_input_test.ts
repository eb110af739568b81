import { deepStrictEqual, doesNotMatch, match, ok, strictEqual } from "node:assert/strict";
import { json, refused } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { ECHO_LINES } from "../support/child_scripts.ts";
import { Daemon, execPath, HOOK_PREFIX } from "../support/daemon.ts";
import { bodyText, headerValues, latin1, request } from "../support/raw_http.ts";

const START = "/v1/exec/start";
const MIB = 1024 * 1024;

/** Asks whether the daemon still does what it is for. */
async function stillServes(daemon: Daemon): Promise<void> {
  const id = await daemon.exec(["echo", "fine"]);
  strictEqual((await daemon.outcome(id)).stdout, "fine\n");
  await daemon.ack(id);
}

Deno.test("requests that are no HTTP are answered by a bare 400 or an end, and harm nobody", async () => {
  await using daemon = await Daemon.bootstrapped();
  const id = await daemon.exec(ECHO_LINES, { stdin: true });
  const garbage: readonly string[] = [
    "\0\0\0\0",
    "GET",
    "GET /v1/health\r\n\r\n",
    "GET /v1/health HTTP/9.9\r\n\r\n",
    "GET  /v1/health HTTP/1.1\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "GET /v1/health HTTP/1.1\r\nHost x\r\n\r\n",
    "GET /v1/health HTTP/1.1\r\n: x\r\n\r\n",
    "GET /v1/health HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "GET /v1/health HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "POST /v1/exec/start HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "POST /v1/exec/start HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    `GET /${"x".repeat(100_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
    `GET /v1/health HTTP/1.1\r\nHost: x\r\nX: ${"y".repeat(200_000)}\r\n\r\n`,
    `GET /v1/health HTTP/1.1\r\nHost: x\r\n${"A: b\r\n".repeat(5000)}\r\n`,
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  ];
  for (const bytes of garbage) {
    using connection = await daemon.connect();
    await connection.send(bytes).catch(() => {});
    await connection.finish().catch(() => {});
    let answer = "";
    for (let piece = await connection.more(); piece.length > 0; piece = await connection.more()) {
      answer += new TextDecoder("latin1").decode(piece);
    }
    match(answer, /^$|^HTTP\/1\.[01] (200|4[0-9]{2}|503) |^\0/, JSON.stringify(bytes.slice(0, 60)));
  }
  await daemon.stdin(id, "on\n", true);
  strictEqual((await daemon.outcome(id)).stdout, "ready\non\n");
  await stillServes(daemon);
});

Deno.test("a token outside of ASCII is answered, not dropped", async () => {
  await using daemon = await Daemon.bootstrapped();
  for (const bytes of ["\xff\xfe\x80", "Bearer \xc3\x28", "Bearer \xf0\x9f\x94\x91"]) {
    using connection = await daemon.connect();
    const answer = await connection.ask("GET", "/v1/procs", [["Authorization", bytes]]);
    strictEqual(answer.status, 401);
    deepStrictEqual(headerValues(answer, "www-authenticate"), ["Bearer"]);
  }
});

Deno.test("clients that vanish in mid-request leave nothing behind", async () => {
  await using daemon = await Daemon.bootstrapped();
  await stillServes(daemon);
  const before = daemon.fdCount();
  const authorization = ["Authorization", `Bearer ${daemon.token}`] as const;
  const whole = request("POST", START, [authorization], JSON.stringify({ exec_id: "x" }));
  for (let cut = 1; cut < whole.length; cut += 7) {
    using connection = await daemon.connect();
    await connection.send(whole.subarray(0, cut));
  }
  await eventually("their descriptors to be back", () => daemon.fdCount() <= before + 1);
  await stillServes(daemon);
  strictEqual((await daemon.health()).execs, 2);
});

Deno.test("clients that vanish in mid-upload of a large start or hook leave nothing behind", async () => {
  await using daemon = await Daemon.bootstrapped();
  await stillServes(daemon);
  const before = { fds: daemon.fdCount(), rss: daemon.rss() };
  const authorization = ["Authorization", `Bearer ${daemon.token}`] as const;
  for (
    const path of [START, execPath("x", "stdin"), `${HOOK_PREFIX}/run`, `${HOOK_PREFIX}/ready`]
  ) {
    for (let times = 0; times < 5; times++) {
      using connection = await daemon.connect();
      await connection.send(request("POST", path, [authorization, ["Content-Length", "1500000"]]));
      await connection.send(new Uint8Array(60_000));
    }
  }
  await eventually("their descriptors to be back", () => daemon.fdCount() <= before.fds + 1);
  ok((daemon.rss() - before.rss) / MIB < 60);
  await stillServes(daemon);
});

Deno.test("clients that vanish in the middle of a large poll or ack lose nothing that others have", async () => {
  await using daemon = await Daemon.bootstrapped();
  const size = 8 * MIB;
  const id = await daemon.exec(`head -c ${size} /dev/zero`);
  await daemon.follow(id);
  const authorization = ["Authorization", `Bearer ${daemon.token}`] as const;
  for (let times = 0; times < 3; times++) {
    using connection = await daemon.connect();
    await connection.send(request("GET", execPath(id), [authorization]));
    strictEqual((await connection.head()).status, 200);
    ok((await connection.more()).length > 0);
  }
  strictEqual((await daemon.poll(id)).stdout?.length, size);
  strictEqual((await daemon.ack(id)).stdout?.length, size);
});

Deno.test("numbers too large for their type are refused, those that fit are taken exactly", async () => {
  await using daemon = await Daemon.bootstrapped();
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

Deno.test("deep or wide JSON is answered promptly and in bounded memory", async () => {
  await using daemon = await Daemon.bootstrapped();
  await stillServes(daemon);
  const before = daemon.rss();
  const bodies = [
    "[".repeat(4 * MIB),
    `{"a":`.repeat(MIB),
    `${"[".repeat(2 * MIB)}${"]".repeat(2 * MIB)}`,
    `[${"0,".repeat(4 * MIB)}0]`,
    `{"exec_id":"x","command":["true"],"x":[${"[],".repeat(3 * MIB)}[]]}`,
    `"${"\\u0000".repeat(MIB)}"`,
  ];
  for (const body of bodies) {
    const started = performance.now();
    await refused(await daemon.post(START, body), 400, "malformed_request");
    ok(performance.now() - started < 5000);
  }
  const grown = (daemon.rss() - before) / MIB;
  ok(grown < 300, `${grown} MiB more`);
  await stillServes(daemon);
});

Deno.test("lone surrogates, NULs and invalid UTF-8 reach no child", async () => {
  await using daemon = await Daemon.bootstrapped();
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

Deno.test("__proto__ is a name like any other in a body, an environment and as an id", async () => {
  await using daemon = await Daemon.bootstrapped();
  const body = '{"exec_id":"__proto__","command":["env"],' +
    '"env":{"__proto__":"one","constructor":"two"},"__proto__":{"shell":true}}';
  strictEqual((await daemon.post(START, body)).status, 200);
  const { stdout } = await daemon.outcome("__proto__");
  match(stdout, /^__proto__=one$/m);
  match(stdout, /^constructor=two$/m);
});

Deno.test("queries of any kind are taken or refused, never a crash", async () => {
  await using daemon = await Daemon.bootstrapped();
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
  const authorization = ["Authorization", `Bearer ${daemon.token}`] as const;
  for (const query of queries) {
    for (const path of [execPath(id), execPath(id, "stream"), "/v1/procs", "/v1/health"]) {
      using connection = await daemon.connect();
      const answer = await connection.ask("GET", `${path}?${query}`, [authorization]);
      ok(answer.status === 200 || answer.status === 400, `${answer.status} ${path}?${query}`);
      if (answer.status === 400) doesNotMatch(bodyText(answer), /\xff/);
    }
  }
  await stillServes(daemon);
});

Deno.test("requests sent ahead on one connection are answered in order, refused ones too", async () => {
  await using daemon = await Daemon.bootstrapped();
  const authorization = ["Authorization", `Bearer ${daemon.token}`] as const;
  using connection = await daemon.connect();
  const targets = ["/v1/health", "/nowhere", "/v1/procs", execPath("nobody"), "/v1/schema"];
  for (let times = 0; times < 10; times++) {
    for (const target of targets) await connection.send(request("GET", target, [authorization]));
  }
  for (let times = 0; times < 10; times++) {
    for (const status of [200, 404, 200, 404, 200]) {
      strictEqual((await connection.response()).status, status);
    }
  }
});

Deno.test("nothing that a caller sent in confidence is in the log, whatever went wrong", async () => {
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
