import { match, strictEqual } from "node:assert/strict";
import { Daemon, HOOK_PREFIX } from "../support/daemon.ts";
import { bodyText } from "../support/raw_http.ts";

Deno.test("a start whose body arrives after the groups were ended starts nothing", async () => {
  await using daemon = await Daemon.bootstrapped({
    env: { GUESTD_DRAIN_SECS: "0.2", GUESTD_KILL_GRACE_SECS: "60" },
  });
  // It holds the end up for two seconds: its own SIGKILL is what the shutdown waits for.
  await using stream = await daemon.ready(
    "trap 'echo told' TERM; echo ready; while :; do sleep 60; done",
  );
  const body = JSON.stringify({ exec_id: "late", command: ["sleep", "4321"] });
  const bytes = daemon.request("POST", "/v1/exec/start", [], body);
  using late = await daemon.connect(bytes.subarray(0, bytes.length - 10));
  strictEqual((await daemon.post(`${HOOK_PREFIX}/terminate`)).status, 200);
  await stream.untilOutput("told");
  await late.send(bytes.subarray(bytes.length - 10));
  const answer = await late.response("POST");
  strictEqual(answer.status, 500);
  match(bodyText(answer), /spawn_failed/);
  strictEqual(await daemon.end(), 0);
});
