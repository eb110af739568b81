import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { plain, text } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { fileUrl, pieces, putTar } from "../support/files_client.ts";
import { request } from "../support/raw_http.ts";
import { Scratch } from "../support/scratch.ts";
import {
  archive,
  base256,
  concat,
  extended,
  member,
  type MemberSpec,
  octal,
  record,
  sign,
} from "../support/tar_archive.ts";
import { treeOf } from "../support/tree.ts";

type Part = MemberSpec | Uint8Array<ArrayBuffer>;

const GIB = 2n ** 30n;
const names = (dir: string): string[] => [...Deno.readDirSync(dir)].map(({ name }) => name).sort();

Deno.test("members become files, directories and links with their modes and times", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const root = scratch.join("made/root");
  const body = archive([
    { name: "./", type: "5", mode: 0o700, mtime: 5 },
    { name: "dir/", type: "5", mode: 0o500, mtime: 1_000_000_001 },
    { name: "dir/file", content: "content", mode: 0o4751, mtime: 1_000_000_002 },
    { name: "dir/empty", mode: 0o600 },
    { name: "implied/deep/file", content: "x".repeat(70_000) },
    { name: "link", type: "2", link: "dir/file" },
    { name: "dir/up", type: "2", link: "../implied/./deep/../deep" },
    { name: "hard", type: "1", link: "dir/file" },
    { name: "a/../b", content: "b" },
  ]);
  strictEqual(await text(await putTar(daemon, root, body), 204), "");
  const mode = (name: string): number => (Deno.statSync(`${root}/${name}`).mode ?? 0) & 0o7777;
  const time = (name: string): number =>
    Math.floor((Deno.statSync(`${root}/${name}`).mtime?.getTime() ?? 0) / 1000);
  deepStrictEqual(names(root), ["b", "dir", "hard", "implied", "link"]);
  strictEqual(Deno.readTextFileSync(`${root}/link`), "content");
  strictEqual(Deno.readLinkSync(`${root}/dir/up`), "../implied/./deep/../deep");
  strictEqual(Deno.statSync(`${root}/hard`).ino, Deno.statSync(`${root}/dir/file`).ino);
  deepStrictEqual(
    ["", "dir", "dir/file", "dir/empty", "implied"].map(mode),
    [0o700, 0o500, 0o751, 0o600, 0o755],
  );
  deepStrictEqual(["", "dir", "dir/file"].map(time), [5, 1_000_000_001, 1_000_000_002]);
  deepStrictEqual([Deno.statSync(`${root}/b`).uid, mode("../../made")], [Deno.uid(), 0o755]);
});

Deno.test("one zero block ends an archive as two do, and what follows is ignored", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const file = member({ name: "file", content: "x" });
  for (const zeros of [1, 2, 19]) {
    const root = scratch.join(`of${zeros}`);
    await text(await putTar(daemon, root, archive([file], zeros)), 204);
    deepStrictEqual(names(root), ["file"]);
  }
  const more = concat([archive([file], 1), new TextEncoder().encode("garbage")]);
  await text(await putTar(daemon, scratch.join("more"), more), 204);
  await text(await putTar(daemon, scratch.join("empty"), archive([])), 204);
  deepStrictEqual(names(scratch.join("empty")), []);
});

/** Archives that are refused: what they are made of, the status, what the answer names. */
const REFUSED: Readonly<
  Record<string, readonly [parts: readonly Part[], status: number, says: RegExp]>
> = {
  "an absolute name": [[{ name: "/etc/owned" }], 400, /\/etc\/owned: it is absolute/],
  "a name that leads out": [[{ name: "a/../../owned" }], 400, /a\/\.\.\/\.\.\/owned/],
  "only dots": [[{ name: "..", type: "5" }], 400, /\.\.: it leads out/],
  "a file in place of the root": [[{ name: "./." }], 400, /replace the root/],
  "an empty name": [[{ name: "" }], 400, /no name/],
  "writing through a symlink": [
    [{ name: "out", type: "2", link: "." }, { name: "out/owned", content: "x" }],
    400,
    /out\/owned: it leads through the symlink out/,
  ],
  "writing through a chain of symlinks": [
    [
      { name: "a/b", type: "2", link: ".." },
      { name: "c", type: "2", link: "a/b" },
      { name: "c/owned" },
    ],
    400,
    /c\/owned/,
  ],
  "writing through a hard link to a symlink": [
    [
      { name: "a", type: "2", link: "." },
      { name: "b", type: "1", link: "a" },
      { name: "b/owned" },
    ],
    400,
    /b\/owned/,
  ],
  "a directory through a symlink": [
    [{ name: "a", type: "2", link: "b" }, { name: "a/c/", type: "5" }],
    400,
    /a\/c/,
  ],
  "a symlink in place of a directory": [
    [{ name: "a/b" }, { name: "a", type: "2", link: "." }],
    400,
    /a: it would replace a directory/,
  ],
  "a file as a directory": [[{ name: "a" }, { name: "a/b" }], 400, /through the file a/],
  "a directory in place of a file": [
    [{ name: "a" }, { name: "a/", type: "5" }],
    400,
    /a\/: it would/,
  ],
  "an absolute symlink": [[{ name: "l", type: "2", link: "/etc" }], 400, /l: it has an absolute/],
  "a symlink out": [[{ name: "d/l", type: "2", link: "../../x" }], 400, /d\/l: .* out of the root/],
  "a symlink to nothing": [[{ name: "l", type: "2", link: "" }], 400, /empty link target/],
  "an absolute hard link": [[{ name: "h", type: "1", link: "/etc/passwd" }], 400, /h: .*absolute/],
  "a hard link out": [[{ name: "h", type: "1", link: "../x" }], 400, /h: .* out of the root/],
  "a hard link to what is not there": [
    [{ name: "h", type: "1", link: "x" }],
    400,
    /h: it is a hard/,
  ],
  "a hard link to what comes later": [
    [{ name: "h", type: "1", link: "x" }, { name: "x" }],
    400,
    /h: it is a hard link/,
  ],
  "a hard link to a directory": [
    [{ name: "d/", type: "5" }, { name: "h", type: "1", link: "d" }],
    400,
    /h: .* directory/,
  ],
  "a hard link through a symlink": [
    [
      { name: "d/f" },
      { name: "l", type: "2", link: "d" },
      { name: "h", type: "1", link: "l/f" },
    ],
    400,
    /h: .* symlink/,
  ],
  "a hard link to itself": [[{ name: "h" }, { name: "h", type: "1", link: "h" }], 400, /itself/],
  "a character device": [[{ name: "dev", type: "3" }], 400, /dev: it is a device/],
  "a block device": [[{ name: "dev", type: "4" }], 400, /dev: it is a device/],
  "a fifo": [[{ name: "pipe", type: "6" }], 400, /pipe: it is a fifo/],
  "an unknown kind": [[{ name: "odd", type: "Q" }], 400, /odd: it is of a kind/],
  "a symlink with content": [
    [{ name: "l", type: "2", link: "x", content: "y" }],
    400,
    /l: it has content/,
  ],
  "a directory with content": [[{ name: "d", type: "5", content: "y" }], 400, /d: it has content/],
  "nine GiB": [[{ name: "huge", size: base256(9n * GIB) }], 413, /huge: it is larger/],
  "eight GiB in two": [
    [
      { name: "a", type: "S", spoil: sparse(5n * GIB) },
      { name: "b", type: "S", spoil: sparse(4n * GIB) },
    ],
    413,
    /b: the archive has more than 8589934592 bytes/,
  ],
  "a negative size": [[{ name: "n", size: base256(-1n) }], 400, /n: it has a negative size/],
  "a size of 96 bits": [[{ name: "n", size: base256(2n ** 80n) }], 400, /n: it has a size/],
  "a size of 64 bits": [[{ name: "n", size: base256(2n ** 63n - 1n) }], 413, /n: it is larger/],
  "a size that is no number": [[{ name: "n", size: "99999999999\0" }], 400, /n: it has a size/],
  "a mode that is no number": [
    [{ name: "n", spoil: (h) => (h.set([0x7a], 100), sign(h)) }],
    400,
    /n: it has a mode/,
  ],
  "content that is not there": [[{ name: "n", size: octal(2000, 12) }], 400, /n: it is truncated/],
  "a wrong checksum": [
    [{ name: "n", spoil: (h) => h.set([0x31], 150) }],
    400,
    /no tar header at byte 1024/,
  ],
  "a size in an extended header that lies": [
    [extended({ size: "100000" }, { name: "n", content: "x" })],
    400,
    /n: it is truncated/,
  ],
  "nine GiB in an extended header": [
    [extended({ size: String(9n * GIB) }, { name: "n", content: "x" })],
    413,
    /n: it is larger/,
  ],
  "a size in an extended header that overflows": [
    [extended({ size: "99999999999999999999" }, { name: "n" })],
    400,
    /malformed extended header/,
  ],
  "a path in an extended header that leads out": [
    [extended({ path: "../owned" }, { name: "n" })],
    400,
    /\.\.\/owned/,
  ],
  "a link in an extended header that leads out": [
    [extended({ linkpath: "/etc/passwd" }, { name: "n", type: "2", link: "fine" })],
    400,
    /n: it has an absolute/,
  ],
  "a NUL in an extended header's path": [
    [extended({ path: "a\0b" }, { name: "n" })],
    400,
    /holds a NUL/,
  ],
  "a global header that names": [
    [extended({ path: "n" }, { name: "m" }, "g")],
    400,
    /global header/,
  ],
  "an extended header that lies about its length": [
    [{ name: "x", type: "x", content: "99 path=n\n" }, { name: "m" }],
    400,
    /malformed extended header at byte 1024/,
  ],
  "an extended header of eight MiB": [
    [{ name: "x", type: "x", size: octal(8 << 20, 12) }],
    400,
    /without a sane size/,
  ],
  "an extended header without a member": [
    [{ name: "x", type: "x", content: record("path", "n") }],
    400,
    /truncated/,
  ],
  "a component of 256 bytes": [
    [extended({ path: "x".repeat(256) }, { name: "n" })],
    400,
    /255 bytes/,
  ],
  "a long name that leads out": [
    [{ name: "././@LongLink", type: "L", content: "../owned\0" }, { name: "n" }],
    400,
    /\.\.\/owned/,
  ],
  "a sparse map that overlaps": [
    [extended({
      "GNU.sparse.major": "0",
      "GNU.sparse.minor": "1",
      "GNU.sparse.map": "0,5,3,5",
      "GNU.sparse.size": "10",
    }, { name: "n", content: "0123456789" })],
    400,
    /n: it has a broken map/,
  ],
};

/** Makes a header that of an old GNU sparse file without data. */
function sparse(size: bigint): (header: Uint8Array) => void {
  return (header) => {
    header.set(new TextEncoder().encode("ustar  \0"), 257);
    header.fill(0, 265);
    header.set(base256(size), 483);
    sign(header);
  };
}

Deno.test("every archive that is refused names its member and leaves nothing", async (t) => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  for (const [what, [parts, status, says]] of Object.entries(REFUSED)) {
    await t.step(what, async () => {
      const root = scratch.join("above/root");
      const body = archive([{ name: "before", content: "x" }, ...parts]);
      match(await plain(await putTar(daemon, root, body), status), says);
      deepStrictEqual(names(scratch.path), []);
      Deno.mkdirSync(scratch.join("old"));
      scratch.file("old/before", "old");
      await plain(await putTar(daemon, scratch.join("old"), body), status);
      deepStrictEqual(names(scratch.join("old")), ["before"]);
      strictEqual(Deno.readTextFileSync(scratch.join("old/before")), "old");
      Deno.removeSync(scratch.join("old"), { recursive: true });
    });
  }
});

Deno.test("garbage, gzip and an empty body are 400", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const whole = archive([{ name: "f", content: "x" }]);
  const gzip = new Response(
    new Blob([whole]).stream().pipeThrough(new CompressionStream("gzip")),
  );
  const garbage = crypto.getRandomValues(new Uint8Array(5000));
  for (const body of [new Uint8Array(), garbage, await gzip.bytes(), whole.subarray(1)]) {
    await plain(await putTar(daemon, scratch.join("root"), body), 400);
    await plain(await putTar(daemon, scratch.join("root"), pieces(body)), 400);
  }
  deepStrictEqual(names(scratch.path), []);
});

Deno.test("an archive cut anywhere before its end is 400 and leaves nothing", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const whole = archive([
    { name: "a", content: "x".repeat(700) },
    extended({ path: "b".repeat(120) }, { name: "b", content: "y" }),
    { name: "l", type: "2", link: "a" },
  ], 0);
  for (let at = 0; at <= whole.length; at += 256) {
    for (const end of [at, at + 1]) {
      if (end > whole.length) continue;
      await plain(await putTar(daemon, scratch.join("root"), whole.slice(0, end)), 400);
    }
  }
  deepStrictEqual(names(scratch.path), []);
  await text(await putTar(daemon, scratch.join("root"), concat([whole, new Uint8Array(512)])), 204);
});

Deno.test("the path must be absolute; mode is ignored", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({ cwd: scratch.path });
  const body = archive([{ name: "f" }]);
  match(await plain(await putTar(daemon, "relative", body), 400), /absolute/);
  match(await plain(await putTar(daemon, "", body), 400), /path/);
  await text(await putTar(daemon, scratch.join("root"), body, { mode: "nonsense" }), 204);
  deepStrictEqual(names(scratch.path), ["root"]);
});

Deno.test("limits: as many members and bytes as allowed, one more is 413, also on the wire", async () => {
  using scratch = new Scratch();
  const env = {
    GUESTD_MAX_TAR_MEMBERS: "3",
    GUESTD_MAX_TAR_BYTES: "1000",
    GUESTD_MAX_BODY_BYTES: "8192",
  };
  await using daemon = await Daemon.bootstrapped({ env });
  const root = scratch.join("root");
  const small = (name: string): MemberSpec => ({ name, content: "x".repeat(300) });
  await text(await putTar(daemon, root, archive(["a", "b", "c"].map(small))), 204);
  Deno.removeSync(root, { recursive: true });
  match(
    await plain(await putTar(daemon, root, archive(["a", "b", "c", "d"].map(small))), 413),
    /d: .*3 members/,
  );
  const large = archive([{ name: "e", content: "x".repeat(1001) }]);
  match(await plain(await putTar(daemon, root, large), 413), /e: it is larger than the 1000/);
  const wide = archive([{ name: "f" }], 20);
  await plain(await putTar(daemon, root, wide), 413);
  await plain(await putTar(daemon, root, pieces(wide)), 413);
  deepStrictEqual(names(scratch.path), []);
});

Deno.test("100,001 members are 413 and 100,000 are extracted", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const root = scratch.join("root");
  const members = Array.from(
    { length: 100_001 },
    (_, at) => member({ name: `d${at % 100}/f${at}` }),
  );
  match(await plain(await putTar(daemon, root, archive(members)), 413), /100000 members/);
  deepStrictEqual(names(scratch.path), []);
  await text(await putTar(daemon, root, archive(members.slice(1))), 204);
  strictEqual(names(`${root}/d7`).length, 1000);
});

Deno.test("a reserve that cannot be kept is 507 before anything is read or written", async () => {
  using scratch = new Scratch();
  const env = { GUESTD_DISK_RESERVE_BYTES: String(2 ** 52) };
  await using daemon = await Daemon.bootstrapped({ env });
  const answer = await putTar(daemon, scratch.join("a/root"), archive([{ name: "f" }]));
  match(await plain(answer, 507), /bytes are available and 4503599627370496 are kept in reserve/);
  deepStrictEqual(names(scratch.path), []);
});

Deno.test("what is on disk: replaced, merged, followed beneath the root, or refused", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const root = scratch.join("root");
  Deno.mkdirSync(`${root}/dir`, { recursive: true });
  Deno.mkdirSync(scratch.join("outside"));
  scratch.file("outside/victim", "untouched", 0o644);
  scratch.file("root/file", "old");
  scratch.file("root/dir/kept", "kept");
  Deno.symlinkSync("../outside/victim", `${root}/link`);
  Deno.symlinkSync("../outside", `${root}/out`);
  Deno.symlinkSync("dir", `${root}/in`);
  Deno.symlinkSync(`${root}/dir`, `${root}/absolute`);
  Deno.symlinkSync("nowhere", `${root}/dangling`);
  const before = treeOf(scratch.path);
  const refused: readonly [MemberSpec, RegExp][] = [
    [{ name: "out/victim" }, /out\/victim: it leads through a symlink out/],
    [{ name: "out/new" }, /out\/new/],
    [{ name: "absolute/f" }, /absolute\/f/],
    [{ name: "dangling/f" }, /dangling\/f: .* nothing/],
    [{ name: "file/f" }, /file\/f: it leads through a file/],
    [{ name: "dir" }, /dir: it would replace a directory/],
    [{ name: "file", type: "5" }, /file: it would replace a file/],
    [{ name: "h", type: "1", link: "out/victim" }, /h: it leads through/],
    [{ name: "h", type: "1", link: "link" }, /h: it is a hard link/],
  ];
  for (const [spec, says] of refused) {
    const body = archive([{ name: "first", content: "x" }, spec]);
    match(await plain(await putTar(daemon, root, body), 400), says);
    deepStrictEqual(treeOf(scratch.path), before);
  }
  const body = archive([
    { name: "file", content: "new" },
    { name: "link", content: "mine", mode: 0o600 },
    { name: "dir/", type: "5" },
    { name: "dir/more", content: "more" },
    { name: "in/through", content: "beneath" },
    { name: "out/", type: "5" },
    { name: "out/new", content: "inside now" },
    { name: "h", type: "1", link: "dir/kept" },
  ]);
  await text(await putTar(daemon, root, body), 204);
  strictEqual(Deno.readTextFileSync(`${root}/file`), "new");
  strictEqual(Deno.readTextFileSync(`${root}/link`), "mine");
  strictEqual(Deno.readTextFileSync(scratch.join("outside/victim")), "untouched");
  strictEqual((Deno.statSync(scratch.join("outside/victim")).mode ?? 0) & 0o777, 0o644);
  deepStrictEqual(names(scratch.join("outside")), ["victim"]);
  deepStrictEqual(names(`${root}/dir`), ["kept", "more", "through"]);
  strictEqual(Deno.lstatSync(`${root}/out`).isDirectory, true);
  strictEqual(Deno.statSync(`${root}/h`).ino, Deno.statSync(`${root}/dir/kept`).ino);
});

Deno.test("a member that comes twice: the later one counts", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const root = scratch.join("root");
  await text(
    await putTar(
      daemon,
      root,
      archive([
        { name: "d/", type: "5", mode: 0o700 },
        { name: "f", content: "one" },
        { name: "h", type: "1", link: "f" },
        { name: "f", content: "two" },
        { name: "l", type: "2", link: "f" },
        { name: "l", type: "2", link: "h" },
        { name: "d/", type: "5", mode: 0o711 },
      ]),
    ),
    204,
  );
  strictEqual(Deno.readTextFileSync(`${root}/f`), "two");
  strictEqual(Deno.readTextFileSync(`${root}/l`), "one");
  strictEqual((Deno.statSync(`${root}/d`).mode ?? 0) & 0o777, 0o711);
  deepStrictEqual(names(root), ["d", "f", "h", "l"]);
});

Deno.test("a root that is no directory is 500, one that is a symlink is followed", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const body = archive([{ name: "f", content: "x" }]);
  const file = scratch.file("file", "x");
  await plain(await putTar(daemon, file, body), 500);
  await plain(await putTar(daemon, `${file}/below`, body), 500);
  Deno.mkdirSync(scratch.join("dir"));
  Deno.symlinkSync("dir", scratch.join("link"));
  await text(await putTar(daemon, scratch.join("link"), body), 204);
  deepStrictEqual(names(scratch.join("dir")), ["f"]);
});

Deno.test("long names, odd bytes and names of 4,096 bytes are extracted", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const root = scratch.join("root");
  const deep = `${"x".repeat(254)}/`.repeat(16) + "y".repeat(16);
  strictEqual(deep.length, 4096);
  await text(
    await putTar(
      daemon,
      root,
      archive([
        extended({ path: "p".repeat(200), mtime: "-1.5" }, { name: "short", content: "pax" }),
        { name: "././@LongLink", type: "L", content: `${"g".repeat(201)}\0` },
        { name: "cut", content: "gnu" },
        { name: "././@LongLink", type: "K", content: `${"t".repeat(300)}\0` },
        { name: "far", type: "2", link: "cut" },
        { name: Uint8Array.of(0xff, 0xfe, 10, 13), content: "bytes" },
      ]),
    ),
    204,
  );
  const far = scratch.join("far");
  const body = archive([extended({ path: deep }, { name: "n", content: "deep" })]);
  await text(await putTar(daemon, far, body), 204);
  strictEqual(Deno.readTextFileSync(`${root}/${"p".repeat(200)}`), "pax");
  strictEqual(Deno.statSync(`${root}/${"p".repeat(200)}`).mtime?.getTime(), -1500);
  strictEqual(Deno.readTextFileSync(`${root}/${"g".repeat(201)}`), "gnu");
  strictEqual(Deno.readLinkSync(`${root}/far`), "t".repeat(300));
  const listed = treeOf(root);
  strictEqual(listed.some((line) => line.startsWith("\xff\xfe\n\r 5 ")), true);
  const bottom = new Deno.Command("find", { args: [far, "-name", "y".repeat(16), "-size", "4c"] });
  strictEqual((await bottom.output()).stdout.length, `${far}/${deep}\n`.length);
  await new Deno.Command("rm", { args: ["-rf", far] }).output();
});

Deno.test("a client that vanishes leaves nothing, not even the root's parents", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const fds = daemon.fdCount();
  const connection = await daemon.connect();
  await connection.send(request("PUT", fileUrl("tar", scratch.join("a/root")), [
    ["Authorization", `Bearer ${daemon.token}`],
    ["Content-Length", "4000000"],
  ]));
  await connection.send(archive([{ name: "f", content: "x".repeat(1_000_000) }]));
  connection[Symbol.dispose]();
  await eventually("the spool closed", () => daemon.fdCount() <= fds);
  deepStrictEqual(names(scratch.path), []);
});
