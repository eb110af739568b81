import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { BLOCK } from "../support/child_scripts.ts";
import { Daemon } from "../support/daemon.ts";
import { childrenOf, isLive, processes, type ProcessStat, processStat } from "../support/proc.ts";

const AS_INIT = {
  through: ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"],
  env: { GUESTD_DRAIN_SECS: "0.2" },
};

/** The daemon as the outer namespace sees it: the only child of unshare(1). */
function initOf(daemon: Daemon): ProcessStat {
  const [init] = childrenOf(daemon.pid);
  if (init === undefined) throw new Error("Cannot find the namespace's init");
  return init;
}

asRoot.test("as PID 1 it runs commands, whose parent it is", async () => {
  await using daemon = await Daemon.bootstrapped(AS_INIT);
  const id = await daemon.exec("echo $PPID; exit 3");
  const { stdout, exit_code } = await daemon.outcome(id);
  deepStrictEqual([stdout, exit_code], ["1\n", 3]);
  strictEqual(await endedBy(daemon, "hook"), true);
});

asRoot.test("as PID 1 it reaps orphans of any session, and its own leaders only in time", async () => {
  await using daemon = await Daemon.bootstrapped(AS_INIT);
  const init = initOf(daemon);
  const left = await daemon.exec("sleep infinity >/dev/null 2>&1 & exit 4");
  strictEqual((await daemon.outcome(left)).exit_code, 4);
  for (let times = 0; times < 5; times++) {
    const id = await daemon.exec("(setsid sh -c 'exit 0' & ) ; (true & ); exit 0");
    await daemon.outcome(id);
  }
  await eventually(
    "no zombie but the kept leader",
    () => childrenOf(init.pid).filter(({ state }) => state === "Z").length === 1,
  );
  strictEqual(await daemon.guest.kill(left), true);
  await eventually("no zombie at all", () => childrenOf(init.pid).length === 0);
  strictEqual(await endedBy(daemon, "SIGTERM"), true);
});

asRoot.test("as PID 1 it ends with power off: the kernel kills the namespace's init", async () => {
  await using daemon = await Daemon.bootstrapped(AS_INIT);
  const init = initOf(daemon);
  await using stream = await daemon.ready(BLOCK);
  const inside = processes().filter(({ ppid }) => ppid === init.pid).map(({ pid }) => pid);
  strictEqual(inside.length, 1);
  Deno.kill(init.pid, "SIGTERM");
  strictEqual((await stream.rest()).exit.signal, 15);
  // reboot(2) in a pid namespace ends its init: by SIGINT for a power off, by SIGHUP for a restart.
  strictEqual(await daemon.end(), 128 + 2);
  strictEqual((await daemon.exited).signal, "SIGINT");
  strictEqual(inside.some(isLive), false);
  strictEqual(processStat(init.pid), undefined);
});

/** Ends it and tells whether its namespace was powered off. */
async function endedBy(daemon: Daemon, by: "hook" | "SIGTERM"): Promise<boolean> {
  const init = initOf(daemon);
  if (by === "hook") await daemon.hook("terminate");
  else Deno.kill(init.pid, "SIGTERM");
  return await daemon.end() === 128 + 2;
}
