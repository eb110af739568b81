import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { output } from "../support/command.ts";
import { plain, text } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { getTar, putFile, putTar } from "../support/files_client.ts";
import { Scratch } from "../support/scratch.ts";
import { concat } from "../support/bytes.ts";
import {
  archive,
  extended,
  member,
  type MemberSpec,
  record,
  sign,
} from "../support/tar_archive.ts";
import { Tmpfs } from "../support/tmpfs.ts";
import { sharedDaemon, withNobody } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
const names = (dir: string): string[] => [...Deno.readDirSync(dir)].map(({ name }) => name).sort();
const mode = (path: string): string => ((Deno.statSync(path).mode ?? 0) & 0o7777).toString(8);

/** Removes directories that lie in each other, from the bottom, a step at a time: no path to it is short enough. */
const REMOVE_DEEP = `
import os, sys
os.chdir(sys.argv[1])
depth = 0
while os.path.isdir("a"):
    os.chdir("a")
    depth += 1
for _ in range(depth):
    os.chdir("..")
    os.rmdir("a")
`;

/** As many files of one byte. The bytes are those of the first but for the name, which is much faster. */
function small(count: number): Uint8Array<ArrayBuffer> {
  const first = member({ name: "f00000", content: "x" });
  const whole = new Uint8Array(count * first.length + 1024);
  for (let at = 0; at < count; at++) {
    const block = whole.subarray(at * first.length, (at + 1) * first.length);
    block.set(first);
    new TextEncoder().encodeInto(`f${String(at).padStart(5, "0")}`, block);
    sign(block.subarray(0, 512));
  }
  return whole;
}

sharedDaemon.test("names that meet through a symlink on disk are one name to the check", async ({ daemon, scratch }) => {
  const root = scratch.join("root");
  Deno.mkdirSync(`${root}/dir`, { recursive: true });
  Deno.mkdirSync(`${root}/x/y`, { recursive: true });
  Deno.symlinkSync("dir", `${root}/in`);
  Deno.symlinkSync("../../dir", `${root}/x/y/deep`);
  Deno.symlinkSync("in/../dir/.", `${root}/round`);
  const before = output("find", root);
  const refused: [MemberSpec[], RegExp][] = [
    [[{ name: "in/f" }, { name: "dir/f/", type: "5" }], /dir\/f\/: it would replace a file/],
    [[{ name: "dir/f" }, { name: "round/f/g" }], /round\/f\/g: .* file dir\/f of the archive/],
    [[{ name: "x/y/deep/s", type: "2", link: "../../../out" }], /link target out of the root/],
    [
      [{ name: "in/s", type: "2", link: "f" }, { name: "dir/s/f" }],
      /symlink dir\/s of the archive/,
    ],
    [[{ name: "in/f" }, { name: "in", type: "2", link: "x" }], /symlink that members lead through/],
    [[{ name: "h", type: "1", link: "in/f" }], /neither the archive nor the root/],
  ];
  for (const [members, why] of refused) {
    const body = archive([{ name: "first" }, ...members]);
    match(await plain(await putTar(daemon, root, body), 400), why);
    strictEqual(output("find", root), before);
  }
  await daemon.guest.uploadTar(
    root,
    archive([
      { name: "in/f", content: "one" },
      { name: "round/g", type: "1", link: "x/y/deep/f" },
      { name: "x/y/deep/s", type: "2", link: "../x" },
    ]),
  );
  deepStrictEqual(names(`${root}/dir`), ["f", "g", "s"]);
  strictEqual(Deno.readTextFileSync(`${root}/dir/g`), "one");
});

sharedDaemon.test("a member is seen whole or not at all, also in place of another", async ({ daemon, scratch }) => {
  // A directory that gives its group on: what is put into it is copied there.
  const root = scratch.join("root");
  Deno.mkdirSync(root);
  output("chmod", "2777", root);
  const size = 24 * MIB;
  for (const round of [1, 2]) {
    const sizes = new Set<number>();
    const answer = putTar(
      daemon,
      root,
      archive([{ name: "big", content: new Uint8Array(size + round) }]),
    );
    let done = false;
    const finished = answer.finally(() => done = true);
    while (!done) {
      const seen = await Deno.stat(`${root}/big`).then((stat) => stat.size, () => -1);
      sizes.add(seen);
    }
    await text(await finished, 204);
    sizes.add(Deno.statSync(`${root}/big`).size);
    sizes.delete(-1);
    if (round === 2) sizes.delete(size + 1);
    deepStrictEqual([...sizes], [size + round]);
  }
  deepStrictEqual(names(root), ["big"]);
});

Deno.test("SIGTERM stops an extraction between two members, and the answer and the log say where", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "0" } });
  const root = scratch.join("root");
  // So many that they take longer than the second that streams have for their exits.
  const answer = putTar(daemon, root, small(90_000));
  await eventually("the first member", () => {
    try {
      return names(root).length > 0;
    } catch {
      return false;
    }
  });
  const stopped = daemon.stop();
  const line = await plain(await answer, 500);
  match(
    line,
    /^Cannot extract on: it was stopped; f[0-9]{5} and the members after it are missing$/,
  );
  strictEqual(await stopped, 0);
  const logged = await daemon.log.until("the stop", ({ msg }) => msg === "a transfer was stopped");
  strictEqual(logged["reason"], line);
  const missing = Number(/; f([0-9]{5})/.exec(line)?.[1]);
  strictEqual(names(root).length, missing);
  strictEqual(names(root).at(-1), `f${String(missing - 1).padStart(5, "0")}`);
});

Deno.test("what small files take on disk counts against the reserve, not their bytes", async () => {
  using disk = Tmpfs.mount(96 * MIB);
  if (disk === undefined) return console.log("skipped: a tmpfs cannot be mounted here");
  const env = { GUESTD_DISK_RESERVE_BYTES: String(48 * MIB) };
  await using daemon = await Daemon.bootstrapped({ env });
  const line = await plain(await putTar(daemon, disk.join("root"), small(14_000)), 507);
  match(line, /50331648 are kept in reserve/);
  deepStrictEqual(names(disk.path), []);
  await daemon.guest.uploadTar(disk.join("root"), small(4000));
});

Deno.test("a file that is written in place is looked at before its first byte: room and reserve", async () => {
  using disk = Tmpfs.mount(32 * MIB);
  if (disk === undefined) return console.log("skipped: a tmpfs cannot be mounted here");
  using scratch = new Scratch();
  const target = scratch.file("target", "covered");
  for (const reserve of [16 * MIB, 0]) {
    const env = { GUESTD_DISK_RESERVE_BYTES: String(reserve), GUESTD_SPOOL_DIR: scratch.path };
    await using daemon = await Daemon.bootstrapped({ env });
    Deno.writeFileSync(disk.join("source"), new Uint8Array(3 * MIB).fill(7));
    using _bound = disk.bindOver("source", target);
    const answer = await putFile(
      daemon,
      target,
      new Uint8Array(reserve === 0 ? 40 * MIB : 20 * MIB),
    );
    const line = await plain(answer, reserve === 0 ? 500 : 507);
    match(line, reserve === 0 ? /in place: .*: ENOSPC/ : /16777216 are kept in reserve/);
    deepStrictEqual(Deno.readFileSync(target), new Uint8Array(3 * MIB).fill(7));
    await daemon.guest.writeFile(target, new Uint8Array(15 * MIB));
  }
});

sharedDaemon.test("a name of 40,000 directories and a file of 250,000 pieces are extracted at once", async ({ daemon, scratch }) => {
  const deep = extended({ path: "a/".repeat(40_000) }, { name: "a", type: "5", mode: 0o755 });
  await daemon.guest.uploadTar(scratch.join("deep"), archive([deep]));
  ok(output("find", scratch.join("deep"), "-type", "d", "-printf", "x").length > 40_000);
  output("python3", "-c", REMOVE_DEEP, scratch.join("deep"));
  const count = 250_000;
  let map = `${count}\n`;
  for (let at = 0; at < count; at++) map += `${2 * at}\n1\n`;
  const mapBytes = new TextEncoder().encode(map);
  const padded = concat([mapBytes, new Uint8Array(-mapBytes.length & 511)]);
  const sparse = extended({
    "GNU.sparse.major": "1",
    "GNU.sparse.minor": "0",
    "GNU.sparse.name": "sparse",
    "GNU.sparse.realsize": String(2 * count),
  }, { name: "s", content: concat([padded, new Uint8Array(count).fill(120)]) });
  await daemon.guest.uploadTar(scratch.join("sparse"), archive([sparse]));
  const content = Deno.readFileSync(scratch.join("sparse/sparse"));
  strictEqual(content.length, 2 * count);
  ok(content.every((byte, at) => byte === (at % 2 === 0 ? 120 : 0)));
});

sharedDaemon.test("a directory that was there keeps its sticky and set-group-id bits", async ({ daemon, scratch }) => {
  Deno.mkdirSync(scratch.join("t/d"), { recursive: true });
  output("chmod", "1777", scratch.join("t"));
  output("chmod", "2775", scratch.join("t/d"));
  const body = await (await daemon.guest.downloadTar(scratch.join("t"))).bytes();
  await daemon.guest.uploadTar(scratch.join("t"), body);
  deepStrictEqual([mode(scratch.join("t")), mode(scratch.join("t/d"))], ["1777", "2775"]);
  await daemon.guest.uploadTar(
    scratch.join("t"),
    archive([{ name: "d/", type: "5", mode: 0o6700 }]),
  );
  strictEqual(mode(scratch.join("t/d")), "2700");
});

withNobody.test("a daemon that is not root extracts into what is not its own, and closes directories last", async ({ daemon, scratch }) => {
  Deno.mkdirSync(scratch.join("theirs"));
  output("chmod", "1777", scratch.join("theirs"));
  const body = archive([{ name: "./", type: "5" }, { name: "f", content: "x" }]);
  await daemon.guest.uploadTar(scratch.join("theirs"), body);
  strictEqual(Deno.readTextFileSync(scratch.join("theirs/f")), "x");
  strictEqual(mode(scratch.join("theirs")), "1777");
  const closed = archive([
    { name: "a/b/", type: "5", mode: 0o755, mtime: 1_000_000_000 },
    { name: "a/b/f" },
    { name: "a/", type: "5", mode: 0o600 },
  ]);
  await daemon.guest.uploadTar(scratch.join("own"), closed);
  strictEqual(mode(scratch.join("own/a")), "600");
  strictEqual(Deno.statSync(scratch.join("own/a/b")).mtime?.getTime(), 1_000_000_000_000);
  Deno.chmodSync(scratch.join("own/a/b/f"), 0);
  output("chmod", "0755", scratch.join("own/a"));
  match(await plain(await getTar(daemon, scratch.join("own")), 500), /a\/b\/f: EACCES/);
});

Deno.test("an archive that meets a mounted file is refused before its first member", async () => {
  using disk = Tmpfs.mount(4 * MIB);
  if (disk === undefined) return console.log("skipped: a tmpfs cannot be mounted here");
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DISK_RESERVE_BYTES: "0" } });
  Deno.writeTextFileSync(disk.join("source"), "kept");
  Deno.writeTextFileSync(disk.join("hosts"), "covered");
  using _bound = disk.bind("source", "hosts");
  const body = archive([{ name: "a" }, { name: "hosts", content: "new" }, { name: "z" }]);
  match(await plain(await putTar(daemon, disk.path, body), 400), /hosts: it would replace what is/);
  deepStrictEqual(names(disk.path), ["hosts", "source"]);
  strictEqual(Deno.readTextFileSync(disk.join("hosts")), "kept");
});

sharedDaemon.test("times keep their fractions down and up", async ({ daemon, scratch }) => {
  Deno.mkdirSync(scratch.join("t/d"), { recursive: true });
  scratch.file("t/f", "x");
  Deno.symlinkSync("f", scratch.join("t/l"));
  output("touch", "-hd", "@1234567890.123456789", scratch.join("t/f"), scratch.join("t/l"));
  output("touch", "-d", "@-1.25", scratch.join("t/d"));
  output("touch", "-d", "@1600000000", scratch.join("t"));
  const times = (root: string): string =>
    output("find", root, "-printf", "%P %T@\n").split("\n").sort().join("\n");
  const wanted = times(scratch.join("t"));
  match(wanted, /f 1234567890\.1234567890/);
  const body = await (await daemon.guest.downloadTar(scratch.join("t"))).bytes();
  await daemon.guest.uploadTar(scratch.join("back"), body);
  strictEqual(times(scratch.join("back")), wanted);
  Deno.writeFileSync(scratch.join("tar"), body);
  Deno.mkdirSync(scratch.join("theirs"));
  output("tar", "-xf", scratch.join("tar"), "-C", scratch.join("theirs"));
  strictEqual(times(scratch.join("theirs")), wanted);
});

sharedDaemon.test("a global header alone is an empty archive", async ({ daemon, scratch }) => {
  const content = record("comment", "0123456789");
  const body = archive([{ name: "pax_global_header", type: "g", content }]);
  await daemon.guest.uploadTar(scratch.join("root"), body);
  deepStrictEqual(names(scratch.join("root")), []);
});
