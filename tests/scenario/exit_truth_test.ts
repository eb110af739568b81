import { deepStrictEqual, rejects, strictEqual } from "node:assert/strict";
import { BLOCK } from "../support/child_scripts.ts";
import { sharedDaemon, withDaemon } from "../support/with_daemon.ts";

withDaemon.test("a stream that loses its daemon ends without an exit, so nobody takes it for the command's end", async ({ daemon }) => {
  await using stream = await daemon.ready(BLOCK);
  const { pids } = await daemon.group(stream.id);
  await daemon.stop("SIGKILL");
  await rejects(stream.rest().then((rest) => rest.exit));
  for (const pid of pids) Deno.kill(pid, "SIGKILL");
});

sharedDaemon.test("the exit of a stream and the outcome of a poll tell the same, and a poll is never ahead of its output", async ({ daemon }) => {
  for (let round = 0; round < 30; round++) {
    const id = await daemon.exec(`head -c ${round * 5000} /dev/zero; echo end >&2; exit ${round}`);
    let polled = await daemon.guest.poll(id);
    while (polled.phase === "running") polled = await daemon.guest.poll(id);
    strictEqual(polled.stdout?.length, round * 5000);
    strictEqual(polled.stderr, "end\n");
    const { exit } = await daemon.follow(id);
    deepStrictEqual(
      [exit.exit_code, exit.signal, exit.truncated, exit.writers_may_be_alive],
      [polled.exit_code, polled.signal, polled.truncated, polled.writers_may_be_alive],
    );
    strictEqual(polled.exit_code, round);
  }
});

sharedDaemon.test("output written just before the end is there, also when the child is killed right after", async ({ daemon }) => {
  for (let round = 0; round < 20; round++) {
    const id = await daemon.exec("head -c 65536 /dev/zero; kill -9 $$");
    const { stdout, signal } = await daemon.outcome(id);
    deepStrictEqual([stdout.length, signal], [65536, 9]);
  }
});
