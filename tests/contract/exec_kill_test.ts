import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { json } from "../support/answers.ts";
import { BLOCK, EXIT_7_ON_TERM, IGNORE_TERM } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { gone, isLive } from "../support/proc.ts";
import { withDaemon, withOptions } from "../support/with_daemon.ts";

const QUICK = { env: { GUESTD_KILL_GRACE_SECS: "0.2" } };
const withQuick = withOptions(QUICK);

/** Starts a script and waits until it says ready. */
async function ready(daemon: Daemon, script: string): Promise<string> {
  await using stream = await daemon.ready(script);
  return stream.id;
}

withDaemon.test("a kill of a running exec answers killed once nobody is left, and it is exited", async ({ daemon }) => {
  const id = await ready(daemon, BLOCK);
  const { pids } = await daemon.group(id);
  const answer = await json(await daemon.post(execPath(id, "kill")));
  deepStrictEqual(answer, { exec_id: id, killed: true });
  strictEqual(pids.some(isLive), false);
  const { phase, signal, exit_code } = await daemon.outcome(id);
  deepStrictEqual([phase, signal, exit_code], ["exited", 15, null]);
  const handling = await ready(daemon, EXIT_7_ON_TERM);
  strictEqual(await daemon.guest.kill(handling), true);
  strictEqual((await daemon.outcome(handling)).exit_code, 7, "what it chose");
});

withQuick.test("kills that overlap share one escalation: one SIGTERM, one grace, one answer for all", async ({ daemon }) => {
  const script =
    "trap 'echo term' TERM; echo ready; while :; do sleep infinity & wait; kill $!; done";
  const id = await ready(daemon, script);
  const before = performance.now();
  const answers = await Promise.all(Array.from({ length: 10 }, () => daemon.guest.kill(id)));
  const took = performance.now() - before;
  strictEqual(answers.every((killed) => killed), true);
  ok(took < 1000, `${took} ms`);
  strictEqual((await daemon.outcome(id)).stdout, "ready\nterm\n");
});

withQuick.test("a kill whose client leaves goes on", async ({ daemon }) => {
  const id = await ready(daemon, IGNORE_TERM);
  const { pids } = await daemon.group(id);
  (await daemon.connect(daemon.request("POST", execPath(id, "kill"))))[Symbol.dispose]();
  await gone(...pids);
  strictEqual((await daemon.outcome(id)).signal, 9);
});
