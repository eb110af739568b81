import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { UNTIL_EOF } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { Footprint } from "../support/footprint.ts";
import { forgetPeak, peakBytes } from "../support/proc.ts";
import { bodyText, type RawConnection, type RawResponse } from "../support/raw_http.ts";
import { withDaemon, withDaemonAsRoot, withOptions } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
const START = "/v1/exec/start";
/** What all of them together may cost, in bytes. */
const COST = 200 * MIB;
/** Longer than many large ones take on a busy machine. */
const LONG_MS = 120_000;

const encoder = new TextEncoder();

/** A start of `true`, of a given length by a field that is ignored. */
function start(id: string, bytes: number): Uint8Array {
  const empty = JSON.stringify({ exec_id: id, command: ["true"], ignored: "" });
  return encoder.encode(`${empty.slice(0, -2)}${"x".repeat(bytes - empty.length)}"}`);
}

function posted(daemon: Daemon, target: string, body: Uint8Array): Uint8Array {
  return daemon.request("POST", target, [], body);
}

/** Posts on a connection of its own; the answer may take long. */
async function ask(daemon: Daemon, target: string, body: Uint8Array): Promise<RawResponse> {
  using connection = await daemon.connect();
  await sendAll(connection, posted(daemon, target, body));
  await connection.arrival();
  return await connection.response();
}

/** Sends however long the daemon does not read. */
async function sendAll(connection: RawConnection, bytes: Uint8Array): Promise<void> {
  connection.patienceMs = LONG_MS;
  await connection.send(bytes);
}

function answerOf(response: RawResponse): readonly [number, string] {
  return [response.status, response.status === 200 ? "" : bodyText(response)];
}

withDaemonAsRoot.test("28 starts of 15 MiB at once are all answered, in 200 MiB, and hold nothing else up", async ({ daemon }) => {
  const before = await Footprint.of(daemon);
  const argument = JSON.stringify({ exec_id: "x", command: ["true", "x".repeat(15 * MIB)] });
  const kinds: readonly (readonly [body: Uint8Array, status: number, detail: RegExp])[] = [
    [encoder.encode(argument), 500, /E2BIG/],
    [start("ignored", 15 * MIB), 200, /^$/],
  ];
  forgetPeak(daemon.pid);
  let open = 28;
  const answers = Array.from({ length: open }, async (_, index) => {
    const [body, status, detail] = kinds[index % 2] ?? [];
    ok(body && detail);
    const answer = answerOf(await ask(daemon, START, body));
    open--;
    strictEqual(answer[0], status);
    match(answer[1], detail);
  });
  // What is small goes on meanwhile; each has the patience of any other request.
  for (let times = 0; open > 0; times++) {
    const id = await daemon.exec(UNTIL_EOF, { stdin: "piped" });
    await daemon.bootstrap(daemon.token);
    await daemon.stdin(id, "hello");
    strictEqual(await daemon.guest.kill(id), true);
    ok(times < 10_000);
  }
  await Promise.all(answers);
  const cost = (peakBytes(daemon.pid) - before.bytes) / MIB;
  ok(cost <= COST / MIB, `${cost.toFixed(1)} MiB`);
  await before.back();
});

asRoot.test("100 writes of a MiB to children that do not read take 150 MiB at most", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_STDIN_WRITE_TIMEOUT_SECS: "1" } });
  const before = await Footprint.of(daemon);
  const children = Array.from(
    { length: 10 },
    () => daemon.exec(["sleep", "1000"], { stdin: "piped" }),
  );
  const ids = await Promise.all(children);
  const body = encoder.encode(JSON.stringify({ data_b64: new Uint8Array(MIB).toBase64() }));
  forgetPeak(daemon.pid);
  const answers = Array.from({ length: 100 }, async (_, index) => {
    const id = ids[index % ids.length] ?? "";
    strictEqual((await ask(daemon, execPath(id, "stdin"), body)).status, 408);
  });
  await Promise.all(answers);
  const cost = (peakBytes(daemon.pid) - before.bytes) / MIB;
  ok(cost <= 150, `${cost.toFixed(1)} MiB`);
});

/** Connections that brought all of a start of 16 MiB but its end: so much is in no kernel, so they were let in. */
async function nearlyWhole(daemon: Daemon, ...ids: readonly string[]): Promise<RawConnection[]> {
  const connections: RawConnection[] = [];
  for (const id of ids) {
    const connection = await daemon.connect();
    await sendAll(connection, posted(daemon, START, start(id, 16 * MIB)).slice(0, -1));
    connections.push(connection);
  }
  return connections;
}

withOptions({ env: { GUESTD_REQUEST_TIMEOUT_SECS: "2" } }).test(
  "starts that stall, after much or little, are given up, and the next ones come in",
  async ({ daemon }) => {
    const [much] = await nearlyWhole(daemon, "much");
    ok(much);
    using little = await daemon.connect();
    // More than what everybody may send unasked.
    await sendAll(little, posted(daemon, START, start("little", 16 * MIB)).subarray(0, MIB));
    using small = await daemon.connect();
    await small.send(posted(daemon, START, start("small", 1000)).slice(0, -1));
    deepStrictEqual(answerOf(await ask(daemon, START, start("next", 16 * MIB))), [200, ""]);
    const slow = "The body came too slowly: less than 65536 bytes within 2 s.\n";
    const cases = [[much, slow], [little, slow], [small, "The body did not come within 2 s.\n"]];
    for (const [connection, sentence] of cases as [RawConnection, string][]) {
      deepStrictEqual(answerOf(await connection.response()), [400, sentence]);
      await connection.closedByPeer();
    }
    much[Symbol.dispose]();
  },
);

withDaemon.test("clients that leave while they wait have asked for nothing, and others come in their place", async ({ daemon }) => {
  const [first, second] = await nearlyWhole(daemon, "first", "second");
  ok(first && second);
  const whole = posted(daemon, START, start("left", 16 * MIB));
  for (let times = 0; times < 20; times++) {
    using leaving = await daemon.connect();
    await sendAll(leaving, whole.subarray(0, MIB));
  }
  const next = ask(daemon, START, start("next", 16 * MIB));
  for (const connection of [first, second]) {
    await connection.send("}");
    deepStrictEqual(answerOf(await connection.response()), [200, ""]);
    connection[Symbol.dispose]();
  }
  deepStrictEqual(answerOf(await next), [200, ""]);
  strictEqual((await daemon.fetch(execPath("left"))).status, 404);
});
