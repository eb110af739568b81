import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { eventually } from "../support/await_event.ts";
import { BLOCK } from "../support/child_scripts.ts";
import { processStat } from "../support/proc.ts";
import { withDaemon } from "../support/with_daemon.ts";

withDaemon.test("an entry has id, group, start, marker, reap and the live pids of its group", async ({ daemon }) => {
  const before = Math.floor(Date.now() / 1000);
  const id = await daemon.exec(BLOCK, { reap: true });
  const after = Math.floor(Date.now() / 1000);
  const { pgid, started_at, pids, ...rest } = await daemon.group(id);
  deepStrictEqual(rest, { exec_id: id, child_exited: false, reap: true });
  ok(before <= Number(started_at) && Number(started_at) <= after);
  deepStrictEqual(pids, [pgid]);
  const stat = processStat(pgid ?? 0);
  deepStrictEqual([stat?.pgid, stat?.session, stat?.ppid], [pgid, pgid, daemon.pid]);
  const first = await daemon.group(id);
  await Promise.all(Array.from({ length: 100 }, () => daemon.guest.procs()));
  deepStrictEqual(await daemon.group(id), first, "looking changes nothing");
});

withDaemon.test("execs are listed in registry order, in every phase", async ({ daemon }) => {
  const ids = ["z", "a", "10", "9", "__proto__", "ä"];
  for (const exec_id of ids) await daemon.exec("true", { id: exec_id });
  for (const id of ids) await daemon.outcome(id);
  await daemon.guest.ack("a");
  await daemon.guest.ack("9");
  const running = await daemon.exec(BLOCK);
  const procs = await daemon.guest.procs();
  deepStrictEqual(procs.map(({ exec_id }) => exec_id), [...ids, running]);
  deepStrictEqual(procs.map(({ child_exited }) => child_exited), [...Array(6).fill(true), false]);
  deepStrictEqual(procs.map(({ reap }) => reap), Array(7).fill(false));
});

withDaemon.test("what a leader left behind is listed as soon as its exit is", async ({ daemon }) => {
  for (let times = 0; times < 80; times++) {
    const id = await daemon.exec("sleep 100 >/dev/null 2>&1 & exit 0");
    // No pause between looks: the exit is to be seen at the first moment.
    let group = await daemon.group(id);
    while (!group.child_exited) group = await daemon.group(id);
    strictEqual(group.pids.length, 1, `at ${times}`);
    await daemon.guest.kill(id);
  }
});

withDaemon.test("an exec that finished with nothing left behind lists no pids, though its zombie is kept", async ({ daemon }) => {
  const id = await daemon.exec("true");
  await daemon.outcome(id);
  const group = await daemon.group(id);
  deepStrictEqual([group.child_exited, group.pids], [true, []]);
  strictEqual(typeof group.pgid, "number");
  await daemon.guest.ack(id);
  deepStrictEqual(await daemon.group(id), group);
});

withDaemon.test("a command that finished while something it backgrounded did not shows that one's pid", async ({ daemon }) => {
  const id = await daemon.exec("sleep infinity >/dev/null 2>&1 & echo $!");
  const { stdout } = await daemon.outcome(id);
  const group = await daemon.group(id);
  deepStrictEqual([group.child_exited, group.pids], [true, [Number(stdout)]]);
  await daemon.guest.ack(id);
  deepStrictEqual((await daemon.group(id)).pids, [Number(stdout)]);
});

withDaemon.test("zombies of a group are not live and not listed", async ({ daemon }) => {
  // The shell becomes a sleep, which never waits for the child that the shell left it.
  const script = "exec 3<&0; head -c1 <&3 >/dev/null & echo $!; exec sleep infinity";
  const id = await daemon.exec(script, { stdin: "piped" });
  await using stream = await daemon.stream(id);
  const zombie = Number(await stream.untilOutput("\n"));
  const leader = (await daemon.group(id)).pgid ?? 0;
  await eventually("the sleep", () => processStat(leader)?.comm === "sleep");
  await daemon.stdin(id, "x");
  await eventually("the zombie", () => processStat(zombie)?.state === "Z");
  const { pgid, pids } = await daemon.group(id);
  strictEqual(processStat(zombie)?.pgid, pgid);
  deepStrictEqual(pids, [pgid]);
});
