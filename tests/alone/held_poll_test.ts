import { strictEqual } from "node:assert/strict";
import { BLOCK, UNTIL_EOF } from "../support/child_scripts.ts";
import { withDaemon } from "../support/with_daemon.ts";

withDaemon.test("a poll of a young exec is held until it is 100 ms old, and no longer", async ({ daemon }) => {
  const started = performance.now();
  const id = await daemon.exec(BLOCK);
  const launched = performance.now();
  strictEqual((await daemon.guest.poll(id)).phase, "running");
  const answered = performance.now();
  // Its age counts from some moment within the start; the clock of the answer is ours.
  strictEqual(answered - started >= 95, true, `${answered - started} ms`);
  strictEqual(answered - launched < 1000, true, `${answered - launched} ms`);
  const before = performance.now();
  strictEqual((await daemon.guest.poll(id)).phase, "running");
  strictEqual(performance.now() - before < 90, true, "an older exec is polled at once");
});

withDaemon.test("a held poll is answered the moment the phase changes", async ({ daemon }) => {
  let quickest = Infinity;
  for (let times = 0; times < 10; times++) {
    const started = performance.now();
    const id = await daemon.exec(UNTIL_EOF, { stdin: "piped" });
    const held = daemon.guest.poll(id);
    await daemon.stdin(id, "", true);
    strictEqual((await held).phase, "exited");
    quickest = Math.min(quickest, performance.now() - started);
  }
  // Each could be held until it is 100 ms old.
  strictEqual(quickest < 95, true, `${quickest} ms`);
});
