import { ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { healthy } from "../support/footprint.ts";
import { forgetPeak, peakBytes } from "../support/proc.ts";
import { withDaemonAsRoot } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
/** What is captured of each of the two streams, in bytes. */
const EACH = 8 * MIB;
/** What an answer may cost, in bytes. */
const COST = 8 * MIB;
/** How far the window grows for a reader that is attached, in bytes. */
const WINDOW = 8 * MIB;
/** Pieces that are taken between two pauses. */
const AT_A_TIME = 8;

/** Writes control characters, each of which escapes to six bytes, and to stderr bytes that are no UTF-8. */
const worst = (size: number): string =>
  `head -c ${size} /dev/zero | tr '\\0' '\\001'; head -c ${size} /dev/zero | tr '\\0' '\\377' >&2`;

/** Its length as JSON: a control character becomes \u0001, a bad byte the three bytes of U+FFFD. */
const escaped = (size: number): number => 6 * size + 3 * size;

/**
 * Reads an answer piece by piece, and asks for health ever so often before it takes the next: the number of bytes.
 * `begun` is called once there is an answer.
 */
async function readSlowly(
  daemon: Daemon,
  method: string,
  path: string,
  begun: () => unknown = () => {},
): Promise<number> {
  using connection = await daemon.connect(daemon.request(method, path));
  const head = await connection.head();
  strictEqual(head.status, 200);
  await begun();
  let bytes = 0;
  let pieces = 0;
  for await (const piece of connection.body(head, method)) {
    bytes += piece.length;
    if (++pieces % AT_A_TIME === 0) await healthy(daemon);
  }
  return bytes;
}

/** Runs a command to its end, at which nobody looks. */
async function run(daemon: Daemon, script: string): Promise<string> {
  const id = await daemon.exec(script);
  await eventually("its end", async () => !(await daemon.guest.health()).busy);
  return id;
}

const trims = (daemon: Daemon): number => daemon.log.withMessage("memory was given back").length;

/** Everything that is to be measured, once in small: the code that it takes is then in memory. */
async function warm(daemon: Daemon): Promise<void> {
  for (let times = 0; times < 3; times++) {
    const id = await run(daemon, worst(20_000));
    await readSlowly(daemon, "GET", execPath(id));
    await readSlowly(daemon, "GET", execPath(id, "stream"));
    await readSlowly(daemon, "POST", execPath(id, "ack"));
  }
}

asRoot.test("a poll, a stream and an ack of 16 MiB cost 8 MiB at most, however slowly they are read", async (t) => {
  // The whole of it is in the window, so that the stream has as much to give as the poll.
  const env = { GUESTD_STREAM_REPLAY_BYTES: String(2 * EACH) };
  await using daemon = await Daemon.bootstrapped({ env });
  await eventually("what the start took to be given back", () => trims(daemon) >= 1);
  const id = await run(daemon, worst(EACH));
  await eventually("what the command took to be given back", () => trims(daemon) >= 2);
  await warm(daemon);
  const cases: readonly [what: string, method: string, path: string, least: number][] = [
    ["poll", "GET", execPath(id), escaped(EACH)],
    ["stream", "GET", execPath(id, "stream"), 2 * EACH / 3 * 4],
    ["poll again", "GET", execPath(id), escaped(EACH)],
    ["ack", "POST", execPath(id, "ack"), escaped(EACH)],
  ];
  for (const [what, method, path, least] of cases) {
    await t.step(what, async () => {
      forgetPeak(daemon.pid);
      const base = daemon.rss();
      const bytes = await readSlowly(daemon, method, path);
      ok(bytes >= least && bytes < least + 100_000, `${bytes} bytes`);
      const cost = peakBytes(daemon.pid) - base;
      ok(cost <= COST, `${(cost / MIB).toFixed(1)} MiB`);
    });
  }
});

withDaemonAsRoot.test("a live stream of 64 MiB costs a slow reader's window of 8 MiB, and little besides", async ({ daemon }) => {
  await eventually("what the start took to be given back", () => trims(daemon) >= 1);
  await warm(daemon);
  // What the command itself costs is its captured output; it stays.
  await run(daemon, worst(32 * MIB));
  const script = `head -c1 >/dev/null; ${worst(32 * MIB)}`;
  const id = await daemon.exec(script, { stdin: "piped" });
  forgetPeak(daemon.pid);
  const base = daemon.rss();
  const go = (): Promise<unknown> => daemon.stdin(id, "x", true);
  ok(await readSlowly(daemon, "GET", execPath(id, "stream"), go) > MIB);
  const cost = peakBytes(daemon.pid) - base - 2 * EACH;
  // Besides the window: half of it once more while it grows, and what is on its way.
  ok(cost <= WINDOW + COST, `${(cost / MIB).toFixed(1)} MiB`);
});
