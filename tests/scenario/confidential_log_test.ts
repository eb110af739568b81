import { deepStrictEqual, doesNotMatch, match, ok, strictEqual } from "node:assert/strict";
import { withStarted } from "../support/with_daemon.ts";

withStarted.test("nothing that a client sent in confidence is in the log, whatever went wrong", async ({ daemon }) => {
  await daemon.bootstrap("t0ken-s3cret", { env: { BASE: "s3cret-base" } });
  const env = { OWN: "s3cret-env" };
  const id = await daemon.exec(["cat"], { stdin: "piped", env });
  await daemon.stdin(id, "s3cret-stdin", true);
  await daemon.outcome(id);
  await daemon.post("/v1/exec/start", {
    exec_id: "y",
    command: ["/no/program s3cret", "s3cret-argument"],
    env,
  });
  await daemon.post("/v1/exec/start", '{"exec_id":"s3cret-broken');
  await daemon.hook("run", { runHookPayload: '{"agent_token":"s3cret-other"' });
  await daemon.fetch("/v1/procs", { headers: { authorization: "Bearer s3cret-wrong" } });
  await daemon.guest.health();
  strictEqual(await daemon.stop(), 0);
  await daemon.log.ended;
  doesNotMatch(daemon.log.toString(), /s3cret/);
  for (const line of daemon.log.lines) {
    deepStrictEqual([typeof line.time, typeof line.msg], ["string", "string"]);
    match(line.level, /^(debug|info|warn|error)$/);
    ok(!Number.isNaN(Date.parse(line.time)));
  }
});
