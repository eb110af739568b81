import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { BLOCK, EXIT_7_ON_TERM, IGNORE_TERM } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { gone, isLive } from "../support/proc.ts";
import { withDaemon, withOptions } from "../support/with_daemon.ts";

const QUICK = { env: { GUESTD_KILL_GRACE_SECS: "0.2" } };
const withQuick = withOptions(QUICK);

/** Starts a script and waits until it says ready. */
async function ready(daemon: Daemon, script: string): Promise<string> {
  const id = await daemon.exec(script);
  await using stream = await daemon.stream(id);
  await stream.untilOutput("ready");
  return id;
}

withDaemon.test("a kill of a running exec answers killed once nobody is left, and it is exited", async ({ daemon }) => {
  const id = await ready(daemon, BLOCK);
  const { pids } = await daemon.group(id);
  deepStrictEqual(await daemon.kill(id), { exec_id: id, killed: true });
  strictEqual(pids.some(isLive), false);
  const { phase, signal, exit_code } = await daemon.outcome(id);
  deepStrictEqual([phase, signal, exit_code], ["exited", 15, null]);
});

withDaemon.test("a child that handles SIGTERM ends with the exit code that it chose", async ({ daemon }) => {
  const id = await ready(daemon, EXIT_7_ON_TERM);
  strictEqual((await daemon.kill(id)).killed, true);
  const { signal, exit_code } = await daemon.outcome(id);
  deepStrictEqual([signal, exit_code], [null, 7]);
});

withQuick.test("a child that ignores SIGTERM gets SIGKILL after kill_grace_secs, not before", async ({ daemon }) => {
  const id = await ready(daemon, IGNORE_TERM);
  const before = performance.now();
  strictEqual((await daemon.kill(id)).killed, true);
  const took = performance.now() - before;
  ok(took >= 190 && took < 5000, `${took} ms`);
  strictEqual((await daemon.outcome(id)).signal, 9);
});

withDaemon.test("a kill of an exec that is over is 200 with killed false, exited or acked", async ({ daemon }) => {
  const id = await daemon.exec("true");
  await daemon.outcome(id);
  deepStrictEqual(await daemon.kill(id), { exec_id: id, killed: false });
  await daemon.ack(id);
  deepStrictEqual(await daemon.kill(id), { exec_id: id, killed: false });
});

withDaemon.test("a second kill after the first is killed false and changes no outcome", async ({ daemon }) => {
  const id = await ready(daemon, BLOCK);
  await daemon.kill(id);
  const outcome = await daemon.outcome(id);
  strictEqual((await daemon.kill(id)).killed, false);
  deepStrictEqual(await daemon.poll(id), outcome);
});

Deno.test("kills that overlap share one escalation: one grace, one answer for all", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_KILL_GRACE_SECS: "0.5" } });
  const id = await ready(daemon, IGNORE_TERM);
  const before = performance.now();
  const kills = Array.from({ length: 10 }, () => daemon.kill(id));
  const answers = await Promise.all(kills);
  const took = performance.now() - before;
  strictEqual(answers.every(({ killed }) => killed), true);
  ok(took < 2500, `${took} ms`);
});

Deno.test("a child gets SIGTERM once however many kills overlap", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_KILL_GRACE_SECS: "0.5" } });
  const script =
    "trap 'echo term' TERM; echo ready; while :; do sleep infinity & wait; kill $!; done";
  const id = await ready(daemon, script);
  await Promise.all(Array.from({ length: 5 }, () => daemon.kill(id)));
  strictEqual((await daemon.outcome(id)).stdout, "ready\nterm\n");
});

withQuick.test("a kill whose client leaves goes on", async ({ daemon }) => {
  const id = await ready(daemon, IGNORE_TERM);
  const { pids } = await daemon.group(id);
  using connection = await daemon.connect();
  await connection.send(
    `POST ${
      execPath(id, "kill")
    } HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${daemon.token}\r\n\r\n`,
  );
  connection[Symbol.dispose]();
  await gone(...pids);
  strictEqual((await daemon.outcome(id)).signal, 9);
});
