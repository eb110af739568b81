import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { eventually, within } from "../support/await_event.ts";
import { BLOCK, IGNORE_TERM, ORPHANED_STUBBORN_GRANDCHILD } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { gone, isLive } from "../support/proc.ts";
import { bodyText, headerValues, request, sized } from "../support/raw_http.ts";
import { withDaemon, withOptions } from "../support/with_daemon.ts";

const QUICK = { env: { GUESTD_DRAIN_SECS: "0.2" } };
const withQuick = withOptions(QUICK);

/** How the end is asked for. */
const WAYS: readonly [string, (daemon: Daemon) => Promise<unknown> | void][] = [
  ["terminate", (daemon) => daemon.hook("terminate")],
  ["SIGTERM", (daemon) => daemon.signal("SIGTERM")],
  ["SIGINT", (daemon) => daemon.signal("SIGINT")],
  ["SIGQUIT", (daemon) => daemon.signal("SIGQUIT")],
  ["SIGHUP", (daemon) => daemon.signal("SIGHUP")],
];

for (const [way, begin] of WAYS) {
  Deno.test(`${way} with a stream open ends it with the exit that really happened`, async () => {
    await using daemon = await Daemon.bootstrapped(QUICK);
    await using stream = await daemon.ready(BLOCK);
    const { pids } = await daemon.group(stream.id);
    await begin(daemon);
    const { exit } = await stream.rest();
    deepStrictEqual([exit.exit_code, exit.signal], [null, 15]);
    strictEqual(await daemon.end(), 0);
    await gone(...pids);
  });

  Deno.test(`${way} with nothing in flight does not wait`, async () => {
    await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "15" } });
    const id = await daemon.exec("true");
    await daemon.outcome(id);
    const before = performance.now();
    await begin(daemon);
    strictEqual(await daemon.end(), 0);
    ok(performance.now() - before < 3000, `${performance.now() - before} ms`);
  });
}

withQuick.test("a command that ignores SIGTERM gets SIGKILL after 2 s, and its stream the exit of that", async ({ daemon }) => {
  await using stream = await daemon.ready(IGNORE_TERM);
  const before = performance.now();
  daemon.signal("SIGTERM");
  strictEqual((await stream.rest()).exit.signal, 9);
  const took = performance.now() - before;
  ok(took > 1900 && took < 6000, `${took} ms`);
  strictEqual(await daemon.end(), 0);
});

withQuick.test("what a finished command left behind does not outlive the daemon", async ({ daemon }) => {
  const id = await daemon.exec(ORPHANED_STUBBORN_GRANDCHILD);
  await daemon.outcome(id);
  const pids = await eventually("the orphan", async () => {
    const group = await daemon.group(id);
    return group.pids.length === 1 && group.pids;
  });
  strictEqual(await daemon.stop(), 0);
  await gone(...pids);
});

withDaemon.test("SIGTERM drains: a request in flight is answered, and its connection told to close", async ({ daemon }) => {
  const id = await daemon.exec(["cat"], { stdin: "piped" });
  using connection = await daemon.connect();
  const body = JSON.stringify({ data_b64: "aGVsbG8=" });
  const whole = daemon.request("POST", execPath(id, "stdin"), [], body);
  // All but the last byte of the body: the request is in flight until the test says so.
  await connection.send(whole.subarray(0, -1));
  await daemon.guest.health();
  daemon.signal("SIGTERM");
  await daemon.log.until("the drain", ({ msg }) => msg === "shutting down");
  await connection.send(whole.subarray(-1));
  const answer = await connection.response();
  strictEqual(answer.status, 200);
  // Deno may say it a second time: the header is a list.
  deepStrictEqual([...new Set(headerValues(answer, "connection"))], ["close"]);
  strictEqual(await daemon.end(), 0);
});

Deno.test("a request that never ends is drained for GUESTD_DRAIN_SECS at most", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "0.5" } });
  using _connection = await daemon.connect(daemon.request("POST", "/v1/exec/start", [sized(100)]));
  await daemon.guest.health();
  const before = performance.now();
  strictEqual(await daemon.stop(), 0);
  const took = performance.now() - before;
  ok(took < 5000, `${took} ms`);
});

Deno.test("a held poll and a held kill are answered with what is known when the daemon ends", async () => {
  await using daemon = await Daemon.bootstrapped({
    env: { GUESTD_DRAIN_SECS: "0.2", GUESTD_KILL_GRACE_SECS: "60" },
  });
  using killing = await daemon.connect();
  using polling = await daemon.connect();
  strictEqual((await polling.ask("GET", "/v1/health")).status, 200);
  // Says when it is told to end, and does not.
  const script = "trap 'echo term' TERM; echo ready; while :; do sleep infinity & wait; done";
  await using stream = await daemon.ready(script);
  await killing.send(daemon.request("POST", execPath(stream.id, "kill")));
  await stream.untilOutput("term\n");
  const young = await daemon.exec(BLOCK);
  await polling.send(daemon.request("GET", execPath(young)));
  await daemon.guest.health();
  daemon.signal("SIGTERM");
  deepStrictEqual(JSON.parse(bodyText(await killing.response())), {
    exec_id: stream.id,
    killed: true,
  });
  deepStrictEqual(JSON.parse(bodyText(await polling.response())), {
    exec_id: young,
    phase: "running",
  });
  strictEqual((await stream.rest()).exit.signal, 9);
  strictEqual(await daemon.end(), 0);
});

Deno.test("a held poll is let go of before anything is ended: it says running", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "0" } });
  using polling = await daemon.connect();
  const id = await daemon.exec(BLOCK);
  // In one piece: once the first is answered the second has been read.
  const both = [request("GET", "/v1/health"), daemon.request("GET", execPath(id))];
  await polling.send(new Uint8Array(await new Blob(both as BlobPart[]).arrayBuffer()));
  strictEqual((await polling.response()).status, 200);
  await daemon.guest.health();
  daemon.signal("SIGTERM");
  deepStrictEqual(JSON.parse(bodyText(await polling.response())), {
    exec_id: id,
    phase: "running",
  });
  strictEqual(await daemon.end(), 0);
});

Deno.test("a second signal ends it at once, with the groups killed", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "60" } });
  await using stream = await daemon.ready(IGNORE_TERM);
  const { pids } = await daemon.group(stream.id);
  daemon.signal("SIGTERM");
  await daemon.log.until("the first", ({ msg }) => msg === "shutting down");
  const before = performance.now();
  daemon.signal("SIGTERM");
  strictEqual(await daemon.end(), 0);
  ok(performance.now() - before < 2000, `${performance.now() - before} ms`);
  await gone(...pids);
});

Deno.test("the first signal after terminate changes nothing, the second ends it at once", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "60" } });
  await using stream = await daemon.ready(IGNORE_TERM);
  const { pids } = await daemon.group(stream.id);
  await daemon.hook("terminate");
  await daemon.log.until("the terminate", ({ msg }) => msg === "shutting down");
  daemon.signal("SIGTERM");
  await daemon.log.until("the first", ({ msg }) => msg === "already shutting down");
  strictEqual(pids.every(isLive), true);
  daemon.signal("SIGINT");
  await daemon.log.until("the second", ({ msg }) => msg === "shutting down at once");
  strictEqual(await daemon.end(), 0);
  await gone(...pids);
});

withQuick.test("a daemon with many commands running, and streams on each, ends all of them in time", async ({ daemon }) => {
  const ids = await Promise.all(Array.from({ length: 40 }, () => daemon.exec(BLOCK)));
  const streams = await Promise.all(ids.map((id) => daemon.stream(id)));
  await Promise.all(streams.map((stream) => stream.untilOutput("ready")));
  daemon.signal("SIGTERM");
  const rests = await Promise.all(streams.map((stream) => stream.rest()));
  strictEqual(rests.every(({ exit }) => exit.signal === 15), true);
  strictEqual(await daemon.end(), 0);
});

Deno.test("idle connections that are kept open do not hold the end up", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "15" } });
  using idle = await daemon.connect();
  strictEqual((await idle.ask("GET", "/v1/health")).status, 200);
  using silent = await daemon.connect();
  const before = performance.now();
  strictEqual(await daemon.stop(), 0);
  ok(performance.now() - before < 3000, `${performance.now() - before} ms`);
  await within("the end of both", Promise.all([idle.closedByPeer(), silent.closedByPeer()]));
});

Deno.test("one that was started to outlive its terminal does not mind the hang-up", async () => {
  await using daemon = await Daemon.bootstrapped({
    through: ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"],
  });
  daemon.signal("SIGHUP");
  const id = await daemon.exec("echo still here");
  strictEqual((await daemon.outcome(id)).stdout, "still here\n");
  deepStrictEqual(daemon.log.withMessage("shutting down"), []);
  strictEqual(await daemon.stop(), 0);
});

withQuick.test("an output that somebody outside of the group holds open does not cost the stream its exit", async ({ daemon }) => {
  const id = await daemon.exec("setsid sh -c 'echo $$; exec sleep 30' & exec sleep infinity");
  await using stream = await daemon.stream(id);
  const holder = Number(await stream.untilOutput("\n"));
  daemon.signal("SIGTERM");
  const { exit } = await stream.rest();
  strictEqual(exit.signal, 15);
  strictEqual(exit.writers_may_be_alive, true);
  strictEqual(await daemon.end(), 0);
  Deno.kill(holder, "SIGKILL");
});

withQuick.test("a writer that is held back for a reader, or floods, does not hold the end up", async ({ daemon }) => {
  const id = await daemon.exec("exec yes");
  await using stream = await daemon.stream(id);
  await stream.next();
  const before = performance.now();
  strictEqual(await daemon.stop(), 0);
  ok(performance.now() - before < 6000, `${performance.now() - before} ms`);
});
