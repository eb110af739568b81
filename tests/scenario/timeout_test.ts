import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { eventually } from "../support/await_event.ts";
import {
  BLOCK,
  EXIT_7_ON_TERM,
  IGNORE_TERM,
  STUBBORN_GRANDCHILD,
} from "../support/child_scripts.ts";
import { Daemon } from "../support/daemon.ts";
import { gone, isLive } from "../support/proc.ts";
import { withDaemon, withOptions } from "../support/with_daemon.ts";

const QUICK = { env: { GUESTD_KILL_GRACE_SECS: "0.2" } };
const withQuick = withOptions(QUICK);

withDaemon.test("a command that outlives its timeout gets SIGTERM, and its exit is published", async ({ daemon }) => {
  const before = performance.now();
  const id = await daemon.exec(BLOCK, { timeout: 300 });
  const { exit } = await daemon.follow(id);
  const took = performance.now() - before;
  ok(took >= 295 && took < 5000, `${took} ms`);
  deepStrictEqual([exit.exit_code, exit.signal], [null, 15]);
  const { phase, stdout } = await daemon.guest.poll(id);
  deepStrictEqual([phase, stdout], ["exited", "ready\n"]);
  strictEqual((await daemon.guest.health()).busy, false);
});

withQuick.test("one that handles SIGTERM ends with its own code, one that ignores it with SIGKILL", async ({ daemon }) => {
  const handling = await daemon.exec(EXIT_7_ON_TERM, { timeout: 500 });
  const ignoring = await daemon.exec(IGNORE_TERM, { timeout: 500 });
  const first = (await daemon.follow(handling)).exit;
  const second = (await daemon.follow(ignoring)).exit;
  deepStrictEqual([first.exit_code, first.signal], [7, null]);
  deepStrictEqual([second.exit_code, second.signal], [null, 9]);
});

withQuick.test("a timeout ends the whole group", async ({ daemon }) => {
  const id = await daemon.exec(STUBBORN_GRANDCHILD, { timeout: 500 });
  const pids = await eventually("both", async () => {
    const { pids } = await daemon.group(id);
    return pids.length === 2 && pids;
  });
  await gone(...pids);
  strictEqual((await daemon.outcome(id)).signal, 15);
});

withDaemon.test("a timeout ends with the leader's exit: what it left behind is not touched", async ({ daemon }) => {
  const id = await daemon.exec("sleep infinity >/dev/null 2>&1 & echo $!", { timeout: 300 });
  const pid = Number((await daemon.outcome(id)).stdout);
  // Another one whose timeout began later and has passed: the first one's would have, too.
  await daemon.follow(await daemon.exec(BLOCK, { timeout: 500 }));
  strictEqual(isLive(pid), true);
});

Deno.test("a timed-out command with reap_group_on_exit is escalated once", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_KILL_GRACE_SECS: "0.6" } });
  // The leader ends at the first SIGTERM; its child counts what it gets until SIGKILL.
  const script = "(trap 'echo term' TERM; echo ready; while :; do sleep infinity & wait; done) & " +
    "exec sleep infinity";
  const id = await daemon.exec(script, { timeout: 500, reap: true });
  const { stdout, signal } = await daemon.outcome(id);
  deepStrictEqual([stdout, signal], ["ready\nterm\n", 15]);
  await eventually("the end of the group", async () => (await daemon.group(id)).pids.length === 0);
});

Deno.test("a kill during a timeout's escalation shares it", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_KILL_GRACE_SECS: "0.6" } });
  const script =
    "trap 'echo term' TERM; echo ready; while :; do sleep infinity & wait; kill $!; done";
  const id = await daemon.exec(script, { timeout: 300 });
  await using stream = await daemon.stream(id);
  await stream.untilOutput("term");
  strictEqual(await daemon.guest.kill(id), true);
  strictEqual((await daemon.outcome(id)).stdout, "ready\nterm\n");
});
