import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { eventually } from "../support/await_event.ts";
import { ORPHANED_STUBBORN_GRANDCHILD, STUBBORN_GRANDCHILD } from "../support/child_scripts.ts";
import { Daemon } from "../support/daemon.ts";
import { gone, isLive, processes } from "../support/proc.ts";
import { withOptions } from "../support/with_daemon.ts";

const QUICK = { env: { GUESTD_KILL_GRACE_SECS: "0.2", GUESTD_OUTPUT_LINGER_SECS: "0.1" } };
const withQuick = withOptions(QUICK);

/** Waits until the group has this many live members. */
async function members(daemon: Daemon, id: string, count: number): Promise<readonly number[]> {
  return await eventually(`${count} members`, async () => {
    const { pids } = await daemon.group(id);
    return pids.length === count && pids;
  });
}

withQuick.test("a kill takes the whole group, a grandchild that ignores SIGTERM too", async ({ daemon }) => {
  await using stream = await daemon.ready(STUBBORN_GRANDCHILD);
  const pids = await members(daemon, stream.id, 2);
  const before = performance.now();
  strictEqual(await daemon.guest.kill(stream.id), true);
  ok(performance.now() - before >= 190, "the grandchild had its grace");
  await gone(...pids);
  deepStrictEqual((await daemon.group(stream.id)).pids, []);
  strictEqual((await stream.rest()).exit.signal, 15);
});

withQuick.test("a kill after the leader is gone takes what it left behind, also after the ack", async ({ daemon }) => {
  const id = await daemon.exec(ORPHANED_STUBBORN_GRANDCHILD);
  const outcome = await daemon.outcome(id);
  strictEqual(outcome.exit_code, 3);
  const [orphan = 0] = await members(daemon, id, 1);
  strictEqual(await daemon.guest.kill(id), true);
  await gone(orphan);
  deepStrictEqual(await daemon.guest.poll(id), outcome);
  strictEqual(await daemon.guest.kill(id), false);
  const acked = await daemon.exec(ORPHANED_STUBBORN_GRANDCHILD);
  await daemon.outcome(acked);
  const [another = 0] = await members(daemon, acked, 1);
  await daemon.guest.ack(acked);
  strictEqual(await daemon.guest.kill(acked), true);
  await gone(another);
});

Deno.test("the escalation goes on after the leader's exit was published", async () => {
  await using daemon = await Daemon.bootstrapped({
    env: { GUESTD_KILL_GRACE_SECS: "1", GUESTD_OUTPUT_LINGER_SECS: "0" },
  });
  await using stream = await daemon.ready(STUBBORN_GRANDCHILD);
  const pids = await members(daemon, stream.id, 2);
  const killing = daemon.guest.kill(stream.id);
  strictEqual((await stream.rest()).exit.signal, 15);
  strictEqual(pids.filter(isLive).length, 1, "published while the grandchild has its grace");
  strictEqual(await killing, true);
  await gone(...pids);
});

withQuick.test("a group that keeps forking is ended by one kill", async ({ daemon }) => {
  // A chain, never more than a few at once: each link starts the next and ends.
  const script = "trap '' TERM; echo ready; while :; do (:); done";
  await using stream = await daemon.ready(script);
  const { pgid } = await daemon.group(stream.id);
  strictEqual(await daemon.guest.kill(stream.id), true);
  await eventually(
    "the end of the group",
    () => !processes().some((stat) => stat.pgid === pgid && stat.state !== "Z"),
  );
});

withQuick.test("reap_group_on_exit ends what a command left behind, with SIGTERM, then SIGKILL", async ({ daemon }) => {
  const polite = await daemon.exec("sleep infinity & echo $!; exit 4", {
    reap: true,
  });
  const outcome = await daemon.outcome(polite);
  deepStrictEqual([outcome.exit_code, outcome.writers_may_be_alive], [4, false]);
  await gone(Number(outcome.stdout));
  await using stream = await daemon.ready(
    "(trap '' TERM; echo ready; exec sleep infinity) & head -c1 >/dev/null",
    { reap: true, stdin: "piped" },
  );
  const pids = await members(daemon, stream.id, 3);
  await daemon.stdin(stream.id, "x");
  await stream.rest();
  await gone(...pids);
});
