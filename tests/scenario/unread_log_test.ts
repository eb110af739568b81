import { ok, strictEqual } from "node:assert/strict";
import { eventually } from "../support/await_event.ts";
import { HOOK_PREFIX, LAUNCHER } from "../support/daemon.ts";

/** Each hook is a line of some hundred bytes: far more than a pipe of 64 KiB takes. */
const HOOKS = 3000;

Deno.test("a log that nobody reads holds no request up, and tells its hole once it is read", async () => {
  const child = new Deno.Command(LAUNCHER, {
    env: { GUESTD_LISTEN: "127.0.0.1:0" },
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const reader = child.stderr.pipeThrough(new TextDecoderStream()).getReader();
  let log = "";
  while (!log.includes("\n")) log += (await reader.read()).value ?? "";
  const { port } = JSON.parse(log.split("\n")[0] ?? "");
  const hook = async (): Promise<void> => {
    const answer = await fetch(`http://127.0.0.1:${port}${HOOK_PREFIX}/ready`, { method: "POST" });
    await answer.body?.cancel();
    strictEqual(answer.status, 200);
  };
  for (let count = 0; count < HOOKS; count++) await hook();
  const read = (async () => {
    for (let next = await reader.read(); !next.done; next = await reader.read()) log += next.value;
  })();
  // The first line that finds room again is preceded by the number of those that did not.
  await eventually("the hole told", async () => {
    await hook();
    return log.includes("log lines were lost");
  });
  child.kill("SIGTERM");
  await read;
  strictEqual((await child.status).code, 0);
  ok(log.split("\n").filter((line) => line.includes('"hook":"ready"')).length < HOOKS);
});
