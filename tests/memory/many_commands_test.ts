import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { ECHO_LINES } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { childFdCount, childrenOf } from "../support/proc.ts";
import { withDaemon, withOptions } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
/** Few line ends, which JSON escapes. */
const LINE = "y".repeat(100);
const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

withDaemon.test("200 commands at once each get their own input, output and exit", async ({ daemon }) => {
  const ids = await Promise.all(
    range(200).map((index) =>
      daemon.exec(`read -r line; echo "$line"; echo e${index} >&2; exit ${index % 256}`, {
        stdin: "piped",
      })
    ),
  );
  strictEqual((await daemon.guest.health()).execs, 200);
  strictEqual(new Set((await daemon.guest.procs()).map(({ pgid }) => pgid)).size, 200);
  const following = Promise.all(ids.map((id) => daemon.follow(id)));
  await Promise.all(ids.map((id, index) => daemon.stdin(id, `line ${index}\n`)));
  for (const [index, rest] of (await following).entries()) {
    strictEqual(rest.text("stdout"), `line ${index}\n`);
    strictEqual(rest.text("stderr"), `e${index}\n`);
    strictEqual(rest.exit.exit_code, index % 256);
  }
  const acked = await Promise.all(ids.map((id) => daemon.guest.ack(id)));
  deepStrictEqual(acked.map(({ stdout }) => stdout), range(200).map((index) => `line ${index}\n`));
});

// Nothing is kept of what they write but for their windows.
withOptions({ env: { GUESTD_MAX_OUTPUT_BYTES: "1000" } }).test(
  "health and procs are answered promptly while 100 commands write",
  async ({ daemon }) => {
    const ids = await Promise.all(range(100).map(() => daemon.exec("exec yes")));
    let slowest = 0;
    for (let times = 0; times < 20; times++) {
      const before = performance.now();
      const { busy, execs } = await daemon.guest.health();
      slowest = Math.max(slowest, performance.now() - before);
      deepStrictEqual([busy, execs], [true, 100]);
    }
    ok(slowest < 2000, `${slowest} ms`);
    const killed = await Promise.all(ids.map((id) => daemon.guest.kill(id)));
    strictEqual(killed.every((was) => was), true);
    await eventually("their ends", async () => !(await daemon.guest.health()).busy);
    for (const id of ids) strictEqual((await daemon.guest.poll(id)).signal, 15);
    await eventually("every leader to be reaped", () => childrenOf(daemon.pid).length === 0);
  },
);

asRoot.test("descriptors, threads and memory are back after a load of commands, streams and clients", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_EXEC_TTL_SECS: "0" } });
  const load = async (): Promise<void> => {
    const ids = await Promise.all(
      range(50).map(() =>
        daemon.exec(`yes ${LINE} | head -c 500000; ${ECHO_LINES}`, { stdin: "piped" })
      ),
    );
    const streams = await Promise.all(ids.map((id) => daemon.fetch(execPath(id, "stream"))));
    await Promise.all(ids.map((id) => daemon.stdin(id, "end\n", true)));
    await Promise.all(streams.map((stream) => stream.bytes()));
    await Promise.all(ids.map((id) => daemon.guest.ack(id)));
    await eventually("the collection", async () => (await daemon.guest.health()).execs === 0);
  };
  for (let warm = 0; warm < 2; warm++) await load();
  const before = {
    fds: childFdCount(daemon.pid),
    threads: daemon.threadCount(),
    rss: daemon.rss(),
  };
  for (let round = 0; round < 4; round++) await load();
  await eventually("every child to be reaped", () => childrenOf(daemon.pid).length === 0);
  await eventually("the descriptors", () => childFdCount(daemon.pid) <= before.fds);
  ok(daemon.threadCount() <= before.threads + 2, `${daemon.threadCount()} threads`);
  // V8 gives back what it likes; kept output would be 100 MiB, and as much again of windows.
  const grown = (daemon.rss() - before.rss) / MIB;
  ok(grown < 150, `${grown} MiB more after 200 commands with 100 MB of output`);
});
