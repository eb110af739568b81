import { strictEqual } from "node:assert/strict";
import { eventually } from "../support/await_event.ts";
import { childrenOf } from "../support/proc.ts";
import { withDaemon } from "../support/with_daemon.ts";

withDaemon.test("a hundred orphans that end at once are all reaped", async ({ daemon }) => {
  const script =
    "exec 3<&0; i=0; while [ $i -lt 100 ]; do (setsid head -c1 <&3 >/dev/null 2>&1 &); " +
    "i=$((i+1)); done; echo ready; exec 0</dev/null";
  const id = await daemon.exec(script, { stdin: "piped" });
  await daemon.outcome(id);
  strictEqual(childrenOf(daemon.pid).length >= 100, true);
  await daemon.stdin(id, "", true);
  await eventually("all to be reaped", () => childrenOf(daemon.pid).length === 0);
});

withDaemon.test("members of a group whose leader is gone are reaped by the daemon as they end", async ({ daemon }) => {
  const script = "exec 3<&0; head -c1 <&3 >/dev/null & sleep infinity >/dev/null 2>&1 & echo $!";
  const id = await daemon.exec(script, { stdin: "piped" });
  await using stream = await daemon.stream(id);
  await stream.untilOutput("\n");
  await eventually("the leader's exit", async () => (await daemon.group(id)).child_exited);
  const { pids, pgid } = await daemon.group(id);
  strictEqual(pids.length, 2);
  await daemon.stdin(id, "x");
  await eventually("one of two", async () => (await daemon.group(id)).pids.length === 1);
  await eventually(
    "no zombie but the leader",
    () =>
      childrenOf(daemon.pid).filter(({ state }) => state === "Z").every(({ pid }) => pid === pgid),
  );
});
