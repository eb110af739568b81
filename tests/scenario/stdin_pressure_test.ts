import { ok, strictEqual } from "node:assert/strict";
import { refused } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { withDaemon, withOptions } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
const SHORT = { env: { GUESTD_STDIN_WRITE_TIMEOUT_SECS: "0.3" } };
const withShort = withOptions(SHORT);
/** Reads nothing before it gets SIGUSR1, then everything, and tells how much. */
const READ_WHEN_TOLD =
  "trap 'go=1' USR1; echo ready; while [ -z \"$go\" ]; do sleep infinity & wait; " +
  "kill $!; done; wc -c; echo done";

async function started(daemon: Daemon, script: string): Promise<string> {
  await using stream = await daemon.ready(script, { stdin: "piped" });
  return stream.id;
}

function write(daemon: Daemon, id: string, bytes: Uint8Array, eof = false): Promise<Response> {
  const signal = eof ? "eof" : null;
  return daemon.post(execPath(id, "stdin"), { data_b64: bytes.toBase64(), signal });
}

async function tellToRead(daemon: Daemon, id: string): Promise<void> {
  Deno.kill((await daemon.group(id)).pgid ?? 0, "SIGUSR1");
}

withShort.test("a child that does not read is 408 in time, and the pipe stays open for it", async ({ daemon }) => {
  const id = await started(daemon, READ_WHEN_TOLD);
  const before = performance.now();
  await refused(await write(daemon, id, new Uint8Array(MIB), true), 408, "stdin_write_timeout");
  const took = performance.now() - before;
  ok(took >= 290 && took < 3000, `${took} ms`);
  await refused(await write(daemon, id, new Uint8Array(10)), 408, "stdin_write_timeout");
  await tellToRead(daemon, id);
  await eventually(
    "the pipe to be read",
    async () => (await write(daemon, id, new Uint8Array(1))).ok,
  );
  strictEqual((await daemon.stdin(id, "", true)).eof, true);
  const { stdout } = await daemon.outcome(id);
  const [, count] = stdout.split("\n");
  // What fitted into the pipe before the 408, and the last byte: nothing of the second write.
  ok(Number(count) < MIB && Number(count) % 4096 === 1, stdout);
});

withShort.test("a queued write that has not begun when its time is over writes nothing", async ({ daemon }) => {
  const id = await started(daemon, READ_WHEN_TOLD);
  strictEqual((await daemon.stdin(id, new Uint8Array(65_536))).written, 65_536);
  const queued = Array.from({ length: 5 }, () => write(daemon, id, new Uint8Array(100)));
  for (const answer of await Promise.all(queued)) {
    const { detail } = await refused(answer, 408, "stdin_write_timeout");
    ok(/ 0 bytes/.test(detail), detail);
  }
  await tellToRead(daemon, id);
  await daemon.stdin(id, "", true);
  strictEqual((await daemon.outcome(id)).stdout, "ready\n65536\ndone\n");
});

withShort.test("a 408 tells how much went, so that a client can send the rest", async ({ daemon }) => {
  const id = await started(daemon, READ_WHEN_TOLD);
  const bytes = new Uint8Array(200_000);
  const { detail } = await refused(await write(daemon, id, bytes), 408, "stdin_write_timeout");
  const went = Number(/([0-9]+) bytes/.exec(detail)?.[1]);
  ok(went > 0 && went < bytes.length, detail);
  await tellToRead(daemon, id);
  await daemon.stdin(id, bytes.subarray(went), true);
  strictEqual((await daemon.outcome(id)).stdout, "ready\n200000\ndone\n");
});

withDaemon.test("an eof that waits behind a write closes the pipe only after it", async ({ daemon }) => {
  // Its first byte shows that the first write has begun.
  const script = `dd bs=1 count=1 of=/dev/null 2>/dev/null; ${READ_WHEN_TOLD}`;
  const id = await daemon.exec(script, { stdin: "piped" });
  await using stream = await daemon.stream(id);
  const writing = write(daemon, id, new Uint8Array(300_001));
  await stream.untilOutput("ready");
  const closing = write(daemon, id, new Uint8Array(5), true);
  await tellToRead(daemon, id);
  strictEqual((await writing).status, 200);
  strictEqual((await closing).status, 200);
  strictEqual((await daemon.outcome(id)).stdout, "ready\n300005\ndone\n");
});

withDaemon.test("writes that wait when the child ends are 410, and so is every later one", async ({ daemon }) => {
  const id = await started(daemon, "echo ready; exec sleep infinity");
  const writing = write(daemon, id, new Uint8Array(MIB));
  await daemon.guest.kill(id);
  await refused(await writing, 410, "stdin_closed");
  await refused(await write(daemon, id, new Uint8Array(1)), 410, "stdin_closed");
});

Deno.test("a stdin that a grandchild still reads takes writes after the leader's exit", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_OUTPUT_LINGER_SECS: "60" } });
  const id = await daemon.exec("exec 3<&0; cat <&3 & exit 0", { stdin: "piped" });
  await eventually("the leader's exit", async () => (await daemon.group(id)).child_exited);
  strictEqual((await daemon.stdin(id, "heard", true)).written, 5);
  strictEqual((await daemon.outcome(id)).stdout, "heard");
});

withDaemon.test("a write that has begun is written to its end although its client leaves", async ({ daemon }) => {
  const script = `dd bs=1 count=1 of=/dev/null 2>/dev/null; ${READ_WHEN_TOLD}`;
  const id = await daemon.exec(script, { stdin: "piped" });
  await using stream = await daemon.stream(id);
  const body = JSON.stringify({ data_b64: new Uint8Array(300_000).toBase64(), signal: "eof" });
  {
    using _connection = await daemon.connect(
      daemon.request("POST", execPath(id, "stdin"), [], body),
    );
    await stream.untilOutput("ready\n");
  }
  await tellToRead(daemon, id);
  strictEqual((await stream.rest()).text(), "299999\ndone\n");
});
