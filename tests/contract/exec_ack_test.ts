import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { execPath } from "../support/daemon.ts";
import { sharedDaemon } from "../support/with_daemon.ts";

sharedDaemon.test("an ack gives the outcome once, under phase acked, and lets go of it", async ({ daemon }) => {
  const id = await daemon.exec("echo out; echo err >&2; exit 3");
  const before = await daemon.outcome(id);
  for (let times = 0; times < 3; times++) deepStrictEqual(await daemon.guest.poll(id), before);
  const acked = await daemon.guest.ack(id);
  deepStrictEqual(acked, {
    exec_id: id,
    phase: "acked",
    exit_code: 3,
    signal: null,
    stdout: "out\n",
    stderr: "err\n",
    truncated: false,
    writers_may_be_alive: false,
  });
  deepStrictEqual({ ...before, phase: "acked" }, acked);
  deepStrictEqual(await daemon.guest.poll(id), { exec_id: id, phase: "acked" });
});

sharedDaemon.test("of many acks at once exactly one gets the output", async ({ daemon }) => {
  const id = await daemon.exec("head -c 3000000 /dev/zero");
  await daemon.follow(id);
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => daemon.post(execPath(id, "ack"))),
  );
  const statuses = answers.map(({ status }) => status).sort();
  deepStrictEqual(statuses, [200, ...Array(9).fill(409)]);
  const winner = answers.find(({ status }) => status === 200);
  strictEqual((await winner?.json()).stdout.length, 3000000);
});

sharedDaemon.test("an ack takes no body and minds none", async ({ daemon }) => {
  const id = await daemon.exec("true");
  await daemon.outcome(id);
  strictEqual((await daemon.post(execPath(id, "ack"), "{no json")).status, 200);
});
