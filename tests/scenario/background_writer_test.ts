import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { eventually } from "../support/await_event.ts";
import { BACKGROUND_HOLDS_PIPES } from "../support/child_scripts.ts";
import { Daemon } from "../support/daemon.ts";
import { isLive, processStat } from "../support/proc.ts";
import { withOptions } from "../support/with_daemon.ts";

const SHORT = { env: { GUESTD_OUTPUT_LINGER_SECS: "0.3" } };
const withShort = withOptions(SHORT);

withShort.test("a backgrounded process that holds the pipes delays the outcome by the linger and no more", async ({ daemon }) => {
  const before = performance.now();
  const id = await daemon.exec(BACKGROUND_HOLDS_PIPES);
  const rest = await daemon.follow(id);
  const took = performance.now() - before;
  ok(took >= 290 && took < 4000, `${took} ms`);
  deepStrictEqual([rest.text(), rest.exit.writers_may_be_alive], ["ready\n", true]);
  const { phase, writers_may_be_alive, exit_code } = await daemon.guest.poll(id);
  deepStrictEqual([phase, writers_may_be_alive, exit_code], ["exited", true, 0]);
});

Deno.test("while the linger runs the leader has exited, the phase is running and an ack is too early", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_OUTPUT_LINGER_SECS: "60" } });
  const id = await daemon.exec(BACKGROUND_HOLDS_PIPES);
  const group = await eventually("the leader's exit", async () => {
    const seen = await daemon.group(id);
    return seen.child_exited && seen;
  });
  strictEqual(group.pids.length, 1);
  strictEqual((await daemon.guest.poll(id)).phase, "running");
  strictEqual((await daemon.guest.health()).busy, true);
  strictEqual((await daemon.post(`/v1/exec/${id}/ack`)).status, 409);
  await daemon.guest.kill(id);
  const { writers_may_be_alive } = await daemon.outcome(id);
  strictEqual(writers_may_be_alive, false, "the pipes closed before the deadline");
});

Deno.test("what is written within the linger belongs to the output", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_OUTPUT_LINGER_SECS: "60" } });
  const script = "exec 3<&0; (head -c1 <&3 >/dev/null; echo late) & echo early";
  const id = await daemon.exec(script, { stdin: "piped" });
  await using stream = await daemon.stream(id);
  await stream.untilOutput("early\n");
  await eventually("the leader's exit", async () => (await daemon.group(id)).child_exited);
  await daemon.stdin(id, "x");
  strictEqual((await stream.rest()).text(), "late\n");
  const { stdout, writers_may_be_alive } = await daemon.guest.poll(id);
  deepStrictEqual([stdout, writers_may_be_alive], ["early\nlate\n", false]);
});

Deno.test("what is written after the outcome was published changes nothing of it", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_OUTPUT_LINGER_SECS: "0" } });
  const script = "exec 3<&0; (head -c1 <&3 >/dev/null; echo late) & echo early";
  const id = await daemon.exec(script, { stdin: "piped" });
  const before = await daemon.outcome(id);
  await daemon.stdin(id, "x");
  await eventually("the late writer's end", async () => (await daemon.group(id)).pids.length === 0);
  deepStrictEqual(await daemon.guest.poll(id), before);
  const rest = await daemon.follow(id);
  deepStrictEqual([rest.text(), rest.contiguous()], ["early\n", 6n]);
});

Deno.test("the linger starts at the leader's exit also when it was killed, timed out or is reaped", async () => {
  await using daemon = await Daemon.bootstrapped({
    env: { GUESTD_OUTPUT_LINGER_SECS: "0.2", GUESTD_KILL_GRACE_SECS: "60" },
  });
  const script = "(trap '' TERM; echo ready; exec sleep infinity) & exec sleep infinity";
  await using stream = await daemon.ready(script);
  const killing = daemon.guest.kill(stream.id);
  deepStrictEqual((await stream.rest()).exit.writers_may_be_alive, true);
  const timed = await daemon.exec(script, { timeout: 300 });
  deepStrictEqual((await daemon.follow(timed)).exit.writers_may_be_alive, true);
  await using third = await daemon.ready(
    "(trap '' TERM; echo ready; exec sleep infinity) & head -c1 >/dev/null",
    { reap: true, stdin: "piped" },
  );
  await daemon.stdin(third.id, "x");
  deepStrictEqual((await third.rest()).exit.writers_may_be_alive, true);
  for (const id of [stream.id, timed, third.id]) {
    for (const pid of (await daemon.group(id)).pids) Deno.kill(pid, "SIGKILL");
  }
  strictEqual(await killing, true);
});

withShort.test("a daemonized grandchild in a session of its own is none of the group's, and outlives a kill of its command", async ({ daemon }) => {
  const id = await daemon.exec("setsid sleep infinity >/dev/null 2>&1 & echo $!; cat", {
    stdin: "piped",
  });
  await using stream = await daemon.stream(id);
  const pid = Number(await stream.untilOutput("\n"));
  await eventually("its own session", () => processStat(pid)?.session === pid);
  const { pgid, pids } = await daemon.group(id);
  deepStrictEqual([pids.includes(pgid ?? 0), pids.includes(pid)], [true, false]);
  strictEqual(await daemon.guest.kill(id), true);
  strictEqual(isLive(pid), true);
  Deno.kill(pid, "SIGKILL");
});
