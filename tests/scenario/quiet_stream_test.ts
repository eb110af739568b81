import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { eventually } from "../support/await_event.ts";
import { BLOCK, ECHO_LINES, flood } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { type RawConnection } from "../support/raw_http.ts";
import { withDaemon, withDaemonAsRoot, withOptions } from "../support/with_daemon.ts";

const KEEPALIVE = { env: { GUESTD_SSE_KEEPALIVE_SECS: "0.2" } };
const withKeepalive = withOptions(KEEPALIVE);

withKeepalive.test("a quiet command's stream is kept alive by comments, each an empty one and a blank line", async ({ daemon }) => {
  await using stream = await daemon.ready(BLOCK);
  const before = performance.now();
  for (let times = 0; times < 3; times++) {
    strictEqual(await stream.nextFrame(), ":");
  }
  const took = performance.now() - before;
  ok(took >= 550 && took < 4000, `${took} ms`);
  await using ahead = await daemon.stream(stream.id, 1_000_000);
  strictEqual(await ahead.nextFrame(), ":", "beyond the total too");
});

Deno.test("output resets the keepalive: none comes while there are events", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_SSE_KEEPALIVE_SECS: "1" } });
  await using stream = await daemon.ready(ECHO_LINES, { stdin: "piped" });
  const before = performance.now();
  while (performance.now() - before < 1500) {
    await daemon.stdin(stream.id, "x\n");
    match(await stream.nextFrame() ?? "the end", /^event: output\n/);
  }
});

Deno.test("output that comes after many keepalives is seen at once", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_SSE_KEEPALIVE_SECS: "0.01" } });
  await using stream = await daemon.ready(ECHO_LINES, { stdin: "piped" });
  for (let times = 0; times < 30; times++) {
    strictEqual(await stream.nextFrame(), ":");
  }
  await daemon.stdin(stream.id, "now\n", true);
  const rest = await stream.rest();
  strictEqual(rest.text(), "now\n");
  strictEqual(rest.exit.offset, 10n);
});

async function attach(daemon: Daemon, id: string): Promise<RawConnection> {
  const connection = await daemon.connect(daemon.request("GET", execPath(id, "stream")));
  return connection;
}

withDaemonAsRoot.test("a client that vanishes on a quiet stream is let go of", async ({ daemon }) => {
  await using witness = await daemon.ready(BLOCK);
  await daemon.guest.health();
  const before = daemon.fdCount();
  for (let times = 0; times < 50; times++) {
    using connection = await attach(daemon, witness.id);
    strictEqual((await connection.head()).status, 200);
  }
  await eventually("their descriptors to be back", () => daemon.fdCount() <= before);
  strictEqual((await daemon.guest.poll(witness.id)).phase, "running");
});

withDaemonAsRoot.test("a client that vanished keeps no window for itself and holds no writer up", async ({ daemon }) => {
  const size = 6 * 1024 * 1024;
  const id = await daemon.exec(`head -c1 >/dev/null; ${flood(size)}; cat`, { stdin: "piped" });
  const idle = daemon.fdCount();
  for (let times = 0; times < 5; times++) {
    using connection = await attach(daemon, id);
    strictEqual((await connection.head()).status, 200);
  }
  await eventually("their descriptors to be back", () => daemon.fdCount() <= idle);
  await daemon.stdin(id, "x");
  await using last = await daemon.stream(id, size - 1);
  await last.untilOutput("\n");
  // An attached reader would have kept all of it.
  await using late = await daemon.stream(id);
  const to = BigInt(size - 1024 * 1024);
  deepStrictEqual(await late.next(), { event: "gap", from: 0n, to });
});

withDaemon.test("a client that closes its sending side counts as gone, and its command never notices", async ({ daemon }) => {
  const id = await daemon.exec(["cat"], { stdin: "piped" });
  using connection = await attach(daemon, id);
  strictEqual((await connection.head()).status, 200);
  await connection.finish();
  await connection.closedByPeer();
  await daemon.stdin(id, "all of it", true);
  strictEqual((await daemon.outcome(id)).stdout, "all of it");
});
