import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { plain } from "../support/answers.ts";
import { Daemon } from "../support/daemon.ts";
import { pieces, putFile, putTar } from "../support/files_client.ts";
import { archive } from "../support/tar_archive.ts";
import { run, Tmpfs } from "../support/tmpfs.ts";

const MIB = 1024 * 1024;
const RESERVE = { GUESTD_DISK_RESERVE_BYTES: String(MIB) };
const names = (dir: string): string[] => [...Deno.readDirSync(dir)].map(({ name }) => name).sort();

Deno.test("a member that fills a disk under the reserve: 507 names it, and nothing of it is left", async () => {
  using disk = Tmpfs.mount(32 * MIB);
  using inner = Tmpfs.mount(4 * MIB);
  if (!disk || !inner) return console.log("skipped: a tmpfs cannot be mounted here");
  await using daemon = await Daemon.bootstrapped({ env: RESERVE });
  // What is mounted beneath the root is not what the archive was weighed against.
  Deno.mkdirSync(disk.join("m"));
  using _mounted = inner.bindOver(".", disk.join("m"));
  const body = archive([{ name: "m/large", content: new Uint8Array(6 * MIB) }]);
  const line = await plain(await putTar(daemon, disk.path, body), 507);
  match(
    line,
    /^Cannot write: [0-9]+ bytes .* reserve; m\/large and the members after it are missing$/,
  );
  deepStrictEqual([names(disk.path), names(inner.path)], [["m"], []]);
  await daemon.guest.uploadTar(disk.path, archive([{ name: "m/small", content: "x" }]));
});

Deno.test("a reserve that is reached in mid-extraction: 507 names the first member missing", async () => {
  using disk = Tmpfs.mount(64 * MIB);
  using inner = Tmpfs.mount(24 * MIB);
  if (!disk || !inner) return console.log("skipped: a tmpfs cannot be mounted here");
  const env = { GUESTD_DISK_RESERVE_BYTES: String(12 * MIB) };
  await using daemon = await Daemon.bootstrapped({ env });
  Deno.mkdirSync(disk.join("m"));
  using _mounted = inner.bindOver(".", disk.join("m"));
  const members = Array.from({ length: 20 }, (_, at) => ({
    name: `m/f${String(at).padStart(2, "0")}`,
    content: new Uint8Array(1_000_000).map((_, byte) => byte * 7 + at),
  }));
  const line = await plain(await putTar(daemon, disk.path, archive(members)), 507);
  const missing = Number(/; m\/f([0-9]{2}) and the members after it are missing$/.exec(line)?.[1]);
  ok(missing > 0, line);
  strictEqual(names(inner.path).at(-1), `f${String(missing - 1).padStart(2, "0")}`);
  strictEqual(names(inner.path).length, missing);
  // Copied from one file system to another.
  for (const [at, name] of names(inner.path).entries()) {
    deepStrictEqual(Deno.readFileSync(inner.join(name)), members[at]?.content);
  }
});

Deno.test("large files for a set-group-id directory are copied, and the room for that is looked for", async () => {
  using disk = Tmpfs.mount(16 * MIB);
  if (disk === undefined) return console.log("skipped: a tmpfs cannot be mounted here");
  await using daemon = await Daemon.bootstrapped({ env: RESERVE });
  const root = disk.join("shared");
  Deno.mkdirSync(root);
  if (!run("chgrp", "12", root)) return console.log("skipped: groups cannot be given here");
  Deno.chmodSync(root, 0o2775);
  const members = (size: number) =>
    archive([{ name: "first", content: "x" }, { name: "large", content: new Uint8Array(size) }]);
  match(
    await plain(await putTar(daemon, root, members(10 * MIB)), 507),
    /1048576 are kept in reserve$/,
  );
  deepStrictEqual(names(root), []);
  await daemon.guest.uploadTar(root, members(6 * MIB));
  strictEqual(Deno.statSync(`${root}/large`).gid, 12);
});

Deno.test("an archive is spooled nowhere but where the reserve is kept", async () => {
  using disk = Tmpfs.mount(16 * MIB);
  using spool = Tmpfs.mount(4 * MIB);
  if (!disk || !spool) return console.log("skipped: a tmpfs cannot be mounted here");
  const env = { GUESTD_DISK_RESERVE_BYTES: String(8 * MIB), GUESTD_SPOOL_DIR: spool.path };
  await using daemon = await Daemon.bootstrapped({ env });
  disk.remountReadOnly();
  const line = await plain(await putTar(daemon, disk.path, archive([{ name: "f" }])), 507);
  match(line, /^Cannot write: 4194304 bytes are available and 8388608 are kept in reserve$/);
});

Deno.test("a disk that a body fills before the reserve is looked at again: 507, nothing is left", async () => {
  using disk = Tmpfs.mount(4 * MIB);
  if (disk === undefined) return console.log("skipped: a tmpfs cannot be mounted here");
  await using daemon = await Daemon.bootstrapped({ env: RESERVE });
  const old = disk.join("old");
  Deno.writeTextFileSync(old, "before");
  const large = new Uint8Array(6 * MIB);
  match(await plain(await putFile(daemon, old, large), 507), /1048576 are kept in reserve$/);
  const body = archive([{ name: "large", content: large }]);
  match(await plain(await putTar(daemon, disk.join("root"), body), 507), /1048576 are kept/);
  deepStrictEqual(names(disk.path), ["old"]);
  strictEqual(Deno.readTextFileSync(old), "before");
});

Deno.test("the reserve is looked at while a body arrives, whichever way it comes", async (t) => {
  using disk = Tmpfs.mount(48 * MIB);
  if (disk === undefined) return console.log("skipped: a tmpfs cannot be mounted here");
  const env = { GUESTD_DISK_RESERVE_BYTES: String(24 * MIB) };
  await using daemon = await Daemon.bootstrapped({ env });
  // The disk would take all of it.
  const content = new Uint8Array(40 * MIB);
  const bodies = { file: content, tar: archive([{ name: "f", content }]) } as const;
  const target = disk.join("made/target");
  for (const [route, put] of [["file", putFile], ["tar", putTar]] as const) {
    const body = bodies[route];
    const ways: Readonly<Record<string, () => Promise<Response>>> = {
      "in chunks": () => put(daemon, target, pieces(body)),
      "with its length": () => put(daemon, target, body),
    };
    for (const [way, send] of Object.entries(ways)) {
      await t.step(`a ${route} ${way}`, async () => {
        const line = await plain(await send(), 507);
        const available = Number(/^Cannot write: ([0-9]+) bytes are available/.exec(line)?.[1]);
        // Looked at every 8 MiB: neither at the end, when 8 MiB are left, nor when the disk is full.
        ok(available > 14 * MIB && available < 24 * MIB, line);
        deepStrictEqual(names(disk.path), []);
      });
    }
  }
});
