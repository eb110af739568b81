import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { eventually, within } from "../support/await_event.ts";
import { HOOK_PREFIX, LAUNCHER } from "../support/daemon.ts";
import { LogLines } from "../support/log_lines.ts";

/** Each hook is a line of some hundred bytes: far more than a pipe of 64 KiB and the daemon's queue take. */
const HOOKS = 3000;

Deno.test("a log that nobody reads holds no request up, and tells its hole once it is read", async () => {
  const child = new Deno.Command(LAUNCHER, {
    clearEnv: true,
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

/** Variables that are no settings: a warning of a hundred bytes for each, more than a pipe takes. */
const SLIPS = 900;

Deno.test("what is told at the start waits for its reader, without holding the start up", async () => {
  // Its log tells no port before it is read.
  const port = freePort();
  const child = unread(port);
  const ready = async (): Promise<boolean> => {
    const answer = await fetch(`http://127.0.0.1:${port}${HOOK_PREFIX}/ready`, { method: "POST" })
      .catch(
        () => null,
      );
    await answer?.body?.cancel();
    return answer?.status === 200;
  };
  await eventually("the daemon answer", ready);
  const log = new LogLines(child.stderr);
  await log.until("its start", ({ msg }) => msg === "listening");
  strictEqual(log.lines.filter(({ msg }) => msg.startsWith("GUESTD_SLIP_")).length, SLIPS);
  child.kill("SIGTERM");
  strictEqual((await child.status).code, 0);
  await log.ended;
  deepStrictEqual(log.withMessage("log lines were lost"), []);
});

Deno.test("what nobody reads holds no end up: neither by SIGTERM nor for want of an address", async () => {
  const port = freePort();
  const served = unread(port);
  const connected = async (): Promise<boolean> => {
    const connection = await Deno.connect({ port }).catch(() => undefined);
    connection?.close();
    return connection !== undefined;
  };
  await eventually("the daemon listen", connected);
  const refused = unread(port);
  strictEqual((await within("the end", refused.status)).code, 1);
  served.kill("SIGTERM");
  strictEqual((await within("the end", served.status)).code, 0);
  for (const { stderr } of [served, refused]) await stderr.cancel();
});

/** A port that was free a moment ago. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** A daemon whose log fills its pipe at the start, and is not read. */
function unread(port: number): Deno.ChildProcess {
  const slips = Array.from({ length: SLIPS }, (_, n) => [`GUESTD_SLIP_${n}`, "x"]);
  return new Deno.Command(LAUNCHER, {
    clearEnv: true,
    env: { GUESTD_LISTEN: `127.0.0.1:${port}`, ...Object.fromEntries(slips) },
    stdout: "null",
    stderr: "piped",
  }).spawn();
}
