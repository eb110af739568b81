import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { ECHO_LINES, flood } from "../support/child_scripts.ts";
import { Daemon, execPath, HOOK_PREFIX } from "../support/daemon.ts";
import { Footprint } from "../support/footprint.ts";
import { forgetPeak, peakBytes } from "../support/proc.ts";
import { bodyText, CHUNKED, RawConnection, request, sized } from "../support/raw_http.ts";
import { withDaemonAsRoot } from "../support/with_daemon.ts";

const START = "/v1/exec/start";
const MIB = 1024 * 1024;

function startOf(daemon: Daemon, index: number): Uint8Array {
  const body = JSON.stringify({ exec_id: `slow${index}`, command: ["echo", `${index}`] });
  return daemon.request("POST", START, [], body);
}

/** So many connections, closed without a word at the end of the block. */
class Crowd extends DisposableStack {
  static async gather(daemon: Daemon, count: number): Promise<Crowd> {
    const crowd = new Crowd();
    for (const member of await Promise.all(Array.from({ length: count }, () => daemon.connect()))) {
      crowd.members.push(crowd.use(member));
    }
    return crowd;
  }

  readonly members: RawConnection[] = [];
}

withDaemonAsRoot.test("a hundred senders of a byte at a time hold nobody up, and are served in the end", async ({ daemon }) => {
  const echo = await daemon.exec(ECHO_LINES, { stdin: "piped" });
  const before = await Footprint.of(daemon);
  {
    using crowd = await Crowd.gather(daemon, 100);
    const requests = crowd.members.map((_, index) => {
      const body = JSON.stringify({ data_b64: btoa(`${index}\n`) });
      return daemon.request("POST", execPath(echo, "stdin"), [], body);
    });
    const longest = Math.max(...requests.map(({ length }) => length));
    let slowest = 0;
    for (let at = 0; at < longest; at++) {
      await Promise.all(crowd.members.map(async (member, index) => {
        await member.send(requests[index]?.subarray(at, at + 1) ?? new Uint8Array());
      }));
      const asked = performance.now();
      using other = await daemon.connect();
      strictEqual((await other.ask("GET", "/v1/health")).status, 200);
      slowest = Math.max(slowest, performance.now() - asked);
    }
    ok(slowest < 2000, `health took ${slowest} ms`);
    for (const [index, member] of crowd.members.entries()) {
      const answer = await member.response();
      const wanted = { exec_id: echo, written: `${index}\n`.length, eof: false };
      deepStrictEqual(JSON.parse(bodyText(answer)), wanted);
    }
  }
  await daemon.stdin(echo, "on\n", true);
  const lines = (await daemon.outcome(echo)).stdout.trimEnd().split("\n");
  const sent = Array.from({ length: 100 }, (_, index) => `${index}`);
  deepStrictEqual(lines.sort(), [...sent, "on", "ready"].sort());
  await before.back();
});

withDaemonAsRoot.test("six hundred clients that stop half-way cost their sockets alone, and nothing once they are gone", async ({ daemon }) => {
  const before = await Footprint.of(daemon);
  const token = daemon.authorization;
  const length = sized(1000000);
  const halves: readonly Uint8Array[] = [
    new Uint8Array(),
    startOf(daemon, 0).subarray(0, 40),
    request("POST", START, [token, length]),
    request("POST", execPath("x", "stdin"), [token, length]),
    request("POST", `${HOOK_PREFIX}/run`, [CHUNKED]),
    request("GET", execPath("x", "stream"), [token]).subarray(0, -2),
  ];
  for (const finishes of [false, true]) {
    using crowd = await Crowd.gather(daemon, 600);
    await Promise.all(crowd.members.map(async (member, index) => {
      await member.send(halves[index % halves.length] ?? new Uint8Array());
      // A client that ends its sending side counts as gone; the daemon closes, or answers 400 and closes.
      if (finishes) await member.finish();
    }));
    const id = crypto.randomUUID();
    using other = await daemon.connect();
    const body = JSON.stringify({ exec_id: id, command: ["true"] });
    strictEqual((await other.ask("POST", START, [token], body)).status, 200);
    if (finishes) {
      for (const member of crowd.members) while ((await member.more()).length > 0);
    }
  }
  await before.back();
  deepStrictEqual(daemon.log.lines.filter(({ level }) => level === "error"), []);
});

withDaemonAsRoot.test("requests sent ahead on one connection are answered in order, refused ones too", async ({ daemon }) => {
  const before = await Footprint.of(daemon);
  const token = [daemon.authorization];
  const targets: readonly (readonly [target: string, status: number])[] = [
    ["/v1/health", 200],
    ["/nowhere", 404],
    ["/v1/procs", 200],
    [execPath("nobody"), 404],
    ["/v1/procs", 401],
  ];
  {
    using connection = await daemon.connect();
    const rounds = 100;
    const sent = (async (): Promise<void> => {
      for (let times = 0; times < rounds; times++) {
        for (const [target, status] of targets) {
          await connection.send(request("GET", target, status === 401 ? [] : token));
        }
      }
    })();
    for (let times = 0; times < rounds; times++) {
      for (const [target, status] of targets) {
        strictEqual((await connection.response()).status, status, target);
      }
    }
    await sent;
  }
  await before.back();
});

withDaemonAsRoot.test("starts sent ahead by a client that reads no answer run once each, and it may vanish", async ({ daemon }) => {
  const count = 200;
  const before = await Footprint.of(daemon);
  {
    using connection = await daemon.connect();
    for (let index = 0; index < count; index++) {
      await connection.send(startOf(daemon, index));
      await connection.send(startOf(daemon, index));
    }
    // The last answer has come when all are started; the others are not read.
    using witness = await daemon.connect();
    const last = JSON.stringify({ exec_id: `slow${count - 1}`, command: ["echo", "again"] });
    const { status } = await witness.ask("POST", START, [daemon.authorization], last);
    strictEqual(status, 200);
  }
  const { execs } = await daemon.guest.health();
  ok(execs >= 2 && execs <= count + 1, `${execs} execs`);
  for (
    const { exec_id } of (await daemon.guest.procs()).filter(({ exec_id }) => /^slow/.test(exec_id))
  ) {
    const { stdout } = await daemon.outcome(exec_id);
    ok(stdout === `${exec_id.slice(4)}\n` || stdout === "again\n", stdout);
  }
  await before.back();
});

withDaemonAsRoot.test("readers that vanish in the middle of a large answer lose nothing that others have", async ({ daemon }) => {
  const size = 8 * MIB;
  const empty = await Footprint.of(daemon);
  const id = await daemon.exec(`head -c ${size} /dev/zero; ${flood(size)} >&2`);
  await daemon.follow(id);
  const file = "/v1/fs/file?path=/proc/self/exe";
  const before = await Footprint.of(daemon);
  const targets = [execPath(id), execPath(id, "stream"), file];
  forgetPeak(daemon.pid);
  for (let times = 0; times < 8; times++) {
    for (const target of targets) {
      using connection = await daemon.connect(daemon.request("GET", target));
      strictEqual((await connection.head()).status, 200);
      ok((await connection.more()).length > 0);
    }
  }
  // They came one after the other; what each left is collected before it becomes much.
  ok(peakBytes(daemon.pid) - before.bytes < 64 * MIB);
  await before.back();
  const { stdout, stderr } = await daemon.guest.poll(id);
  deepStrictEqual([stdout?.length, stderr?.length], [size, size]);
  // An ack that is asked for and not read is one all the same: the client vanished after it was done.
  {
    using connection = await daemon.connect(daemon.request("POST", execPath(id, "ack")));
    strictEqual((await connection.head()).status, 200);
  }
  deepStrictEqual(await daemon.guest.poll(id), { exec_id: id, phase: "acked" });
  await empty.back(true);
});

asRoot.test("a stream that its reader has left keeps nothing of what was acked", async () => {
  const size = 32 * MIB;
  const env = { GUESTD_STREAM_REPLAY_BYTES: String(size) };
  await using daemon = await Daemon.bootstrapped({ env });
  const empty = await Footprint.of(daemon);
  const id = await daemon.exec(`${flood(size)}; exec cat`, { stdin: "piped" });
  await using last = await daemon.stream(id, size - 1);
  await last.next();
  for (const offset of [0, size]) {
    using connection = await daemon.connect();
    const target = `${execPath(id, "stream")}?offset=${offset}`;
    await connection.send(daemon.request("GET", target));
    strictEqual((await connection.head()).status, 200);
  }
  await daemon.stdin(id, "", true);
  strictEqual((await last.rest()).exit.offset, BigInt(size));
  await daemon.guest.ack(id);
  await empty.back();
});
