import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { refused } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { flood } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { isLive, processStat } from "../support/proc.ts";
import { SseStream } from "../support/sse.ts";
import { withOptions } from "../support/with_daemon.ts";

const SHORT = { env: { GUESTD_EXEC_TTL_SECS: "0.3", GUESTD_OUTPUT_LINGER_SECS: "0" } };
const withShort = withOptions(SHORT);

async function collected(daemon: Daemon, id: string): Promise<void> {
  await eventually(
    "the collection",
    async () => !(await daemon.guest.procs()).some(({ exec_id }) => exec_id === id),
  );
}

withShort.test("an acked exec is collected when its time has passed, is unknown then and its id free; no other is", async ({ daemon }) => {
  const kept = await daemon.exec("echo kept");
  const running = await daemon.exec(["cat"], { stdin: "piped" });
  await daemon.outcome(kept);
  const id = await daemon.exec("echo x");
  await daemon.outcome(id);
  await daemon.guest.ack(id);
  const acked = performance.now();
  strictEqual((await daemon.guest.poll(id)).phase, "acked");
  await collected(daemon, id);
  ok(performance.now() - acked >= 290);
  for (
    const [method, what] of [["GET", ""], ["GET", "stream"], ["POST", "ack"], ["POST", "kill"]]
  ) {
    const path = what === "" ? execPath(id) : execPath(id, what);
    await refused(await daemon.fetch(path, { method: method ?? "" }), 404, "unknown_exec");
  }
  await refused(await daemon.post(execPath(id, "stdin"), {}), 404, "unknown_exec");
  strictEqual((await daemon.guest.poll(kept)).stdout, "kept\n");
  strictEqual((await daemon.guest.poll(running)).phase, "running");
  strictEqual((await daemon.guest.health()).execs, 2);
  const again = await daemon.exec("echo another", { id: id });
  strictEqual((await daemon.outcome(again)).stdout, "another\n");
});

Deno.test("an open stream of an exec outlives its collection and gets everything", async () => {
  // More than sockets hold, so that most of it is still the daemon's when the exec is collected.
  const size = 16 * 1024 * 1024;
  const env = { ...SHORT.env, GUESTD_STREAM_REPLAY_BYTES: String(size) };
  await using daemon = await Daemon.bootstrapped({ env });
  const id = await daemon.exec(`${flood(size)}; exit 7`);
  await eventually("its end", async () => !(await daemon.guest.health()).busy);
  using connection = await daemon.connect(daemon.request("GET", execPath(id, "stream")));
  const head = await connection.head();
  await daemon.guest.ack(id);
  await collected(daemon, id);
  await using stream = new SseStream(ReadableStream.from(connection.body(head)));
  const rest = await stream.rest();
  deepStrictEqual(rest.gaps, []);
  strictEqual(rest.contiguous(), BigInt(size));
  deepStrictEqual([rest.exit.exit_code, rest.exit.offset], [7, BigInt(size)]);
});

withShort.test("what a collected command left behind runs on, its leader is reaped and its number given up", async ({ daemon }) => {
  const id = await daemon.exec("sleep infinity & echo $!");
  const { stdout } = await daemon.outcome(id);
  const { pgid } = await daemon.group(id);
  await daemon.guest.ack(id);
  await collected(daemon, id);
  await eventually("the leader to be reaped", () => processStat(pgid ?? 0) === undefined);
  strictEqual(isLive(Number(stdout)), true);
  Deno.kill(Number(stdout), "SIGKILL");
});
