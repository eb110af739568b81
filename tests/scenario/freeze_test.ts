import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { CoreClock } from "../support/core_clock.ts";
import { Daemon, execPath } from "../support/daemon.ts";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** A command that would take for ever, with a budget of `timeoutSecs`. */
async function sleeper(daemon: Daemon, timeoutSecs: number): Promise<string> {
  return await daemon.exec("exec sleep 1000", { timeout: 1000 * timeoutSecs });
}

/** Returns once the core has done with all that was asked of it before. */
async function settled(daemon: Daemon): Promise<void> {
  strictEqual((await daemon.outcome(await daemon.exec("exit 0"))).exit_code, 0);
}

/** Returns once the core has looked at its clocks some more: it ends a command whose budget is a second. */
async function looked(daemon: Daemon): Promise<void> {
  strictEqual((await daemon.outcome(await sleeper(daemon, 1))).signal, 15);
}

asRoot.test("the suspend hook opens the time in which a jump counts, and a minute after the resume hook closes it", async () => {
  await using daemon = await Daemon.bootstrapped();
  const clock = new CoreClock(daemon.pid);
  const frozen = await sleeper(daemon, 7200);
  clock.setWall(3 * HOUR_MS);
  await looked(daemon);
  strictEqual((await daemon.guest.poll(frozen)).phase, "running", "before a suspend hook");
  await daemon.hook("suspend");
  await daemon.hook("resume");
  await settled(daemon);
  clock.pass(MINUTE_MS + 1000);
  clock.setWall(3 * HOUR_MS);
  await looked(daemon);
  strictEqual((await daemon.guest.poll(frozen)).phase, "running", "a minute after the resume hook");
  await daemon.hook("suspend");
  await settled(daemon);
  clock.setWall(3 * HOUR_MS);
  const resumed = performance.now();
  await daemon.hook("resume");
  strictEqual((await daemon.outcome(frozen)).signal, 15);
  ok(performance.now() - resumed < 5000, "at once");
});

asRoot.test("keepalives and the time to live of acked commands go on over jumps in both directions", async () => {
  await using daemon = await Daemon.bootstrapped({
    env: { GUESTD_SSE_KEEPALIVE_SECS: "1", GUESTD_EXEC_TTL_SECS: "1" },
  });
  const clock = new CoreClock(daemon.pid);
  for (const jumpMs of [HOUR_MS, -2 * HOUR_MS]) {
    await daemon.hook("suspend");
    const acked = await daemon.exec("exit 0");
    await daemon.outcome(acked);
    await daemon.guest.ack(acked);
    const begun = performance.now();
    const quiet = await daemon.exec("exec sleep 1000");
    clock.setWall(jumpMs);
    await daemon.hook("resume");
    strictEqual((await daemon.guest.poll(acked)).phase, "acked");
    const answer = await daemon.fetch(`/v1/exec/${quiet}/stream`);
    const reader = answer.body?.getReader();
    const first = await reader?.read();
    deepStrictEqual(new TextDecoder().decode(first?.value), ":\n\n");
    const tookMs = performance.now() - begun;
    ok(tookMs > 900 && tookMs < 10_000, `${tookMs} ms`);
    await reader?.cancel();
    await eventually("its end", async () => (await daemon.fetch(execPath(acked))).status === 404);
    const goneMs = performance.now() - begun;
    ok(goneMs < 10_000, `${goneMs} ms`);
  }
});
