import { deepStrictEqual, notStrictEqual, rejects, strictEqual } from "node:assert/strict";
import { asRoot } from "./as_root.ts";
import * as scripts from "./child_scripts.ts";
import { Daemon, execPath, runOnce } from "./daemon.ts";
import { gone, isLive, processes } from "./proc.ts";
import { bodyText } from "./raw_http.ts";
import { SseStream } from "./sse.ts";

Deno.test("a daemon starts, runs a command to its end and stops with 0", async () => {
  await using daemon = await Daemon.bootstrapped();
  const id = await daemon.exec("echo out; echo err >&2; exit 3");
  const { exit_code, stdout, stderr } = await daemon.outcome(id);
  deepStrictEqual([exit_code, stdout, stderr], [3, "out\n", "err\n"]);
  strictEqual((await daemon.ack(id)).phase, "acked");
  strictEqual(isLive(daemon.pid), true);
  strictEqual(await daemon.stop(), 0);
  strictEqual(isLive(daemon.pid), false);
});

Deno.test("the launcher becomes the daemon, so that it is one process with no shell left", async () => {
  await using daemon = await Daemon.start();
  const family = processes().filter(({ ppid, pid }) => ppid === daemon.pid || pid === daemon.pid);
  deepStrictEqual(family.map(({ pid }) => pid), [daemon.pid]);
});

Deno.test("nothing that a test left running outlives its block", async () => {
  let pids: readonly number[] = [];
  {
    await using daemon = await Daemon.bootstrapped();
    const id = await daemon.exec(scripts.STUBBORN_GRANDCHILD);
    await using stream = await daemon.stream(id);
    await stream.untilOutput("ready");
    pids = (await daemon.group(id)).pids;
    strictEqual(pids.length, 2);
  }
  await gone(...pids);
});

Deno.test("a daemon that crashes fails its test", async () => {
  await rejects(async () => {
    await using daemon = await Daemon.start();
    Deno.kill(daemon.pid, "SIGKILL");
    await daemon.exited;
  }, /exited with 137/);
});

Deno.test("one that does not start fails its test at once and shows why", async () => {
  await rejects(Daemon.start({ env: { GUESTD_LIBRARY: "/nonexistent" } }), /nonexistent/);
});

Deno.test("each child script does what it says", async () => {
  const env = { GUESTD_KILL_GRACE_SECS: "0.1", GUESTD_OUTPUT_LINGER_SECS: "0.1" };
  await using daemon = await Daemon.bootstrapped({ env });
  const started = async (script: string, stdin = false): Promise<string> => {
    const id = await daemon.exec(script, { stdin });
    await using stream = await daemon.stream(id);
    await stream.untilOutput("ready");
    return id;
  };
  const killed = async (script: string): Promise<unknown[]> => {
    const id = await started(script);
    strictEqual((await daemon.kill(id)).killed, true);
    const { exit_code, signal } = await daemon.outcome(id);
    return [exit_code, signal];
  };
  deepStrictEqual(await killed(scripts.BLOCK), [null, 15]);
  deepStrictEqual(await killed(scripts.IGNORE_TERM), [null, 9]);
  deepStrictEqual(await killed(scripts.EXIT_7_ON_TERM), [7, null]);

  const orphaned = await started(scripts.ORPHANED_STUBBORN_GRANDCHILD);
  strictEqual((await daemon.outcome(orphaned)).exit_code, 3);
  strictEqual((await daemon.group(orphaned)).pids.length, 1);

  const holding = await started(scripts.BACKGROUND_HOLDS_PIPES);
  strictEqual((await daemon.outcome(holding)).writers_may_be_alive, true);

  const reading = await started(scripts.UNTIL_EOF, true);
  await daemon.stdin(reading, "", true);
  strictEqual((await daemon.outcome(reading)).exit_code, 0);
});

Deno.test("stdin reaches the command and its end too", async () => {
  await using daemon = await Daemon.bootstrapped();
  const id = await daemon.exec(scripts.ECHO_LINES, { stdin: true });
  await using stream = await daemon.stream(id);
  await stream.untilOutput("ready");
  strictEqual((await daemon.stdin(id, "one\n")).written, 4);
  await stream.untilOutput("one");
  strictEqual((await daemon.stdin(id, "two\n", true)).eof, true);
  strictEqual((await stream.rest()).text(), "two\n");
});

Deno.test("a stream is the same over a raw connection", async () => {
  await using daemon = await Daemon.bootstrapped();
  const id = await daemon.exec(scripts.flood(100_000));
  const whole = await daemon.follow(id);
  strictEqual(whole.contiguous(), 100_000n);
  using connection = await daemon.connect();
  await connection.send(
    `GET ${
      execPath(id, "stream")
    } HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${daemon.token}\r\n\r\n`,
  );
  const head = await connection.head();
  strictEqual(head.status, 200);
  await using stream = new SseStream(ReadableStream.from(connection.body(head)));
  deepStrictEqual((await stream.rest()).bytes(), whole.bytes());
  const health = await connection.ask("GET", "/v1/health");
  strictEqual(JSON.parse(bodyText(health)).bootstrapped, true);
});

asRoot.test("the daemon's resources can be counted and its log read", async () => {
  await using daemon = await Daemon.start();
  strictEqual(daemon.rss() > 1e6, true);
  strictEqual(daemon.fdCount() > 3, true);
  strictEqual(daemon.threadCount() > 1, true);
  strictEqual(daemon.log.withMessage("listening").length, 1);
});

Deno.test("a run that ends by itself gives its output", async () => {
  const { code, stdout } = await runOnce(["--version"]);
  strictEqual(code, 0);
  notStrictEqual(stdout, "");
});
