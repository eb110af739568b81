import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { forgetPeak, peakBytes } from "../support/proc.ts";
import { Scratch } from "../support/scratch.ts";
import { withDaemon, withDaemonAsRoot } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
const CAP = 8 * MIB;
/** A long line: JSON escapes line ends, which takes most of the time. */
const LINE = "y".repeat(100);

/** Waits for the end of a command whose output nobody reads: nothing but the exit comes from beyond it. */
async function ended(daemon: Daemon, id: string): Promise<void> {
  await using stream = await daemon.stream(id, 2n ** 63n);
  await stream.rest();
}

withDaemon.test("exactly 8 MiB are not truncated, one byte more is, on each stream for itself", async ({ daemon }) => {
  const outcome = async (script: string): Promise<readonly unknown[]> => {
    const id = await daemon.exec(script);
    await ended(daemon, id);
    const { stdout, stderr, truncated } = await daemon.guest.poll(id);
    return [stdout?.length, stderr?.length, truncated];
  };
  const some = (size: number): string => `yes ${LINE} | head -c ${size}`;
  deepStrictEqual(await outcome(`${some(CAP)}; ${some(CAP)} >&2`), [CAP, CAP, false]);
  deepStrictEqual(await outcome(some(CAP + 1)), [CAP, 0, true]);
  deepStrictEqual(await outcome(`echo x; ${some(CAP + 1)} >&2`), [2, CAP, true]);
  deepStrictEqual(await outcome(some(3 * CAP)), [CAP, 0, true]);
});

Deno.test("what is captured is the beginning, a character that is cut is U+FFFD, and the stream knows of all of it", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_MAX_OUTPUT_BYTES: "10" } });
  const id = await daemon.exec("printf '01234567€'; printf abc; printf e >&2");
  const { stdout, stderr, truncated } = await daemon.outcome(id);
  deepStrictEqual([stdout, stderr, truncated], ["01234567\ufffd", "e", true]);
  const rest = await daemon.follow(id);
  deepStrictEqual([rest.text("stdout"), rest.exit.offset], ["01234567€abc", 15n]);
  strictEqual((await daemon.guest.ack(id)).truncated, true);
});

/** Sizes of the files in `directory` that the daemon has open and that have no name any more. */
function unnamedFiles(daemon: Daemon, directory: string): number[] {
  const sizes: number[] = [];
  for (const { name } of Deno.readDirSync(`/proc/${daemon.pid}/fd`)) {
    const path = `/proc/${daemon.pid}/fd/${name}`;
    try {
      const target = Deno.readLinkSync(path);
      if (!target.startsWith(`${directory}/`) || !target.endsWith(" (deleted)")) continue;
      sizes.push(Deno.statSync(path).size);
    } catch {
      // Closed since the listing.
    }
  }
  return sizes;
}

/** Runs commands with as much output as is kept of each stream, one after the other; gives their ids. */
async function fill(daemon: Daemon, words: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const word of words) {
    const id = await daemon.exec(`yes ${word} | head -c ${CAP}; yes ${word}! | head -c ${CAP} >&2`);
    await ended(daemon, id);
    ids.push(id);
  }
  return ids;
}

/** The output that `fill` made is all there, in ack, and that of the first and the last command in poll. */
async function isWhole(
  daemon: Daemon,
  ids: readonly string[],
  words: readonly string[],
): Promise<void> {
  const captured = (line: string): string => line.repeat(CAP / line.length + 1).slice(0, CAP);
  for (const [index, id] of ids.entries()) {
    const isPolled = index === 0 || index === ids.length - 1;
    const answers = isPolled ? [await daemon.guest.poll(id)] : [];
    answers.push(await daemon.guest.ack(id));
    for (const { stdout, stderr, truncated } of answers) {
      strictEqual(stdout === captured(`${words[index]}\n`), true);
      strictEqual(stderr === captured(`${words[index]}!\n`), true);
      strictEqual(truncated, false);
    }
  }
}

asRoot.test("unacked output beyond 64 MiB in all is in an unnamed file in GUESTD_SPOOL_DIR, until the ack", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_SPOOL_DIR: scratch.path } });
  const words = ["first", "second", "third", "fourth", "fifth", "sixth"].map((word) => word + LINE);
  const some = await fill(daemon, words.slice(0, 3));
  deepStrictEqual(unnamedFiles(daemon, scratch.path), [], "48 MiB are kept in memory");
  const more = await fill(daemon, words.slice(3));
  await eventually("32 MiB of 96 to be in the file", () => {
    const [size = 0] = unnamedFiles(daemon, scratch.path);
    return size >= 32 * MIB;
  });
  deepStrictEqual([...Deno.readDirSync(scratch.path)], [], "it has no name");
  await isWhole(daemon, [...some, ...more], words);
  await eventually("its space back", () => unnamedFiles(daemon, scratch.path).length === 0);
});

Deno.test("output that cannot be spooled stays in memory, with a warning, and nothing of it is lost", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_SPOOL_DIR: "/no/such/place" } });
  const words = ["first", "second", "third", "fourth", "fifth"].map((word) => word + LINE);
  const ids = await fill(daemon, words);
  const line = await daemon.log.until(
    "the warning",
    ({ msg }) => msg.includes("cannot be spooled"),
  );
  deepStrictEqual([line.level, line["directory"]], ["warn", "/no/such/place"]);
  ok(daemon.rss() > 5 * 2 * CAP);
  await isWhole(daemon, ids, words);
});

withDaemonAsRoot.test("commands that all write at once wait for the disk, and fill no memory", async ({ daemon }) => {
  const script = `head -c ${CAP} /dev/zero; head -c ${CAP} /dev/zero >&2`;
  const { pid } = daemon;
  forgetPeak(pid);
  const before = peakBytes(pid);
  const ids = await Promise.all(Array.from({ length: 30 }, () => daemon.exec(script)));
  await eventually("the end of all", async () => !(await daemon.guest.health()).busy);
  const more = (peakBytes(pid) - before) / MIB;
  ok(more < 200, `${more.toFixed(0)} MiB of ${ids.length * 16}`);
  const { stdout, stderr, truncated } = await daemon.guest.ack(ids[0] ?? "");
  deepStrictEqual([stdout?.length, stderr?.length, truncated], [CAP, CAP, false]);
});
