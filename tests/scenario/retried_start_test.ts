import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import type { StartResponse } from "../../src/contract/exec.ts";
import { json, refused } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { Scratch } from "../support/scratch.ts";
import { sharedDaemon, withDaemon } from "../support/with_daemon.ts";

const START = "/v1/exec/start";

/** A start whose child leaves one line in a file for each time that it ran. */
function marking(scratch: Scratch, exec_id = "once"): unknown {
  return {
    exec_id,
    command: [`echo ran >> ${scratch.join("marks")}; cat`],
    shell: true,
    stdin: true,
  };
}

function marks(scratch: Scratch): number {
  return Deno.readTextFileSync(scratch.join("marks")).split("\n").length - 1;
}

withDaemon.test("a start whose answer was lost is retried and runs once, its output undisturbed", async ({ daemon, scratch }) => {
  const body = JSON.stringify(marking(scratch));
  {
    using _connection = await daemon.connect(daemon.request("POST", START, [], body));
  }
  await eventually("the start", async () => (await daemon.guest.health()).execs === 1);
  const { phase } = await json<StartResponse>(await daemon.post(START, body));
  strictEqual(phase, "running");
  await daemon.stdin("once", "kept", true);
  strictEqual((await daemon.outcome("once")).stdout, "kept");
  strictEqual(marks(scratch), 1);
  strictEqual((await json<StartResponse>(await daemon.post(START, body))).phase, "exited");
  strictEqual(marks(scratch), 1);
  strictEqual((await daemon.guest.poll("once")).stdout, "kept");
  const invalid = await daemon.post(START, { exec_id: "once", command: [] });
  await refused(invalid, 400, "malformed_request");
});

withDaemon.test("a client that vanishes in mid-body has started nothing", async ({ daemon }) => {
  const body = JSON.stringify({ exec_id: "half", command: ["true"] });
  const whole = daemon.request("POST", START, [], body);
  for (const missing of [1, 10, body.length]) {
    using _connection = await daemon.connect(whole.subarray(0, whole.length - missing));
  }
  await daemon.log.until("the loss", ({ msg }) => msg.includes("ended early"));
  strictEqual((await daemon.guest.health()).execs, 0);
});

withDaemon.test("twenty parallel starts with one id make one child, and all are answered with 200", async ({ daemon, scratch }) => {
  for (let round = 1; round <= 5; round++) {
    const id = `once-${round}`;
    const body = marking(scratch, id);
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => daemon.post(START, body)),
    );
    const phases = await Promise.all(answers.map((answer) => json<StartResponse>(answer)));
    strictEqual(phases.every(({ exec_id }) => exec_id === id), true);
    strictEqual((await daemon.guest.procs()).length, round);
    await daemon.stdin(id, "", true);
    await daemon.outcome(id);
    strictEqual(marks(scratch), round);
  }
});

withDaemon.test("parallel starts of an id that cannot be spawned all get the failure, and nothing is registered", async ({ daemon }) => {
  const body = { exec_id: "never", command: ["/no/such/program"] };
  const answers = await Promise.all(Array.from({ length: 20 }, () => daemon.post(START, body)));
  for (const answer of answers) {
    match((await refused(answer, 500, "spawn_failed")).detail, /ENOENT/);
  }
  deepStrictEqual(await daemon.guest.procs(), []);
  const good = await daemon.post(START, { exec_id: "never", command: ["true"] });
  strictEqual(good.status, 200);
});

sharedDaemon.test("requests for an id whose start is under way wait for it instead of denying it", async ({ daemon }) => {
  for (let round = 0; round < 20; round++) {
    const exec_id = `young-${round}`;
    const starting = daemon.post(START, { exec_id, command: ["cat"], stdin: true });
    const writing = daemon.post(`/v1/exec/${exec_id}/stdin`, { data_b64: "YQ==", signal: "eof" });
    strictEqual((await starting).status, 200);
    const written = await writing;
    // It came before the start on another connection, or it was written.
    if (written.status === 404) await daemon.stdin(exec_id, "a", true);
    strictEqual((await daemon.outcome(exec_id)).stdout, "a");
  }
});
