import { deepStrictEqual, rejects, strictEqual } from "node:assert/strict";
import * as scripts from "./child_scripts.ts";
import { Daemon } from "./daemon.ts";
import { gone, processes } from "./proc.ts";
import { withStarted } from "../support/with_daemon.ts";

withStarted.test("the launcher becomes the daemon, so that it is one process with no shell left", ({ daemon }) => {
  const family = processes().filter(({ ppid, pid }) => ppid === daemon.pid || pid === daemon.pid);
  deepStrictEqual(family.map(({ pid }) => pid), [daemon.pid]);
});

Deno.test("nothing that a test left running outlives its block", async () => {
  let pids: readonly number[] = [];
  {
    await using daemon = await Daemon.bootstrapped();
    const id = await daemon.exec(scripts.STUBBORN_GRANDCHILD);
    await using stream = await daemon.stream(id);
    await stream.untilOutput("ready");
    pids = (await daemon.group(id)).pids;
    strictEqual(pids.length, 2);
  }
  await gone(...pids);
});

Deno.test("a daemon that crashes fails its test", async () => {
  await rejects(async () => {
    await using daemon = await Daemon.start();
    Deno.kill(daemon.pid, "SIGKILL");
    await daemon.exited;
  }, /exited with 137/);
});

Deno.test("one that does not start fails its test at once and shows why", async () => {
  await rejects(Daemon.start({ env: { GUESTD_LIBRARY: "/nonexistent" } }), /nonexistent/);
});
