import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { output } from "../support/command.ts";
import { plain, text } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { fileUrl, pieces, putTar } from "../support/files_client.ts";
import { sized } from "../support/raw_http.ts";
import { Scratch } from "../support/scratch.ts";
import { concat } from "../support/bytes.ts";
import { archive, extended, member, type MemberSpec } from "../support/tar_archive.ts";
import { treeOf } from "../support/tree.ts";
import { sharedDaemon, withDaemonAsRoot } from "../support/with_daemon.ts";

const names = (dir: string): string[] => [...Deno.readDirSync(dir)].map(({ name }) => name).sort();

sharedDaemon.test("members become files, directories and links with their modes and times", async ({ daemon, scratch }) => {
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

Deno.test("the root, its parents and directories that no member names are 0755, whatever the umask", async () => {
  using scratch = new Scratch();
  const through = ["sh", "-c", 'umask 077; exec "$@"', "sh"];
  await using daemon = await Daemon.bootstrapped({ through });
  const body = archive([{ name: "a/b/f", mode: 0o666 }, { name: "d/", type: "5", mode: 0o777 }]);
  await daemon.guest.uploadTar(scratch.join("above/root"), body);
  const mode = (name: string): string =>
    ((Deno.statSync(scratch.join(`above/${name}`)).mode ?? 0) & 0o7777).toString(8);
  deepStrictEqual(
    [".", "root", "root/a", "root/a/b", "root/a/b/f", "root/d"].map(mode),
    ["755", "755", "755", "755", "666", "777"],
  );
});

sharedDaemon.test("one zero block ends an archive as two do, and what follows is ignored", async ({ daemon, scratch }) => {
  const file = member({ name: "file", content: "x" });
  for (const zeros of [1, 2, 19]) {
    const root = scratch.join(`of${zeros}`);
    await daemon.guest.uploadTar(root, archive([file], zeros));
    deepStrictEqual(names(root), ["file"]);
  }
  const more = concat([archive([file], 1), new TextEncoder().encode("garbage")]);
  await daemon.guest.uploadTar(scratch.join("more"), more);
  await daemon.guest.uploadTar(scratch.join("empty"), archive([]));
  deepStrictEqual(names(scratch.join("empty")), []);
});

sharedDaemon.test("garbage, gzip and an empty body are 400", async ({ daemon, scratch }) => {
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
  await daemon.guest.uploadTar(root, archive(["a", "b", "c"].map(small)));
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

withDaemonAsRoot.test("what is on disk: replaced, merged, followed beneath the root, or refused", async ({ daemon, scratch }) => {
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
    [
      { name: "h", type: "1", link: "out/victim" },
      /h: it has a link target that leads through a symlink out/,
    ],
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
  await daemon.guest.uploadTar(root, body);
  strictEqual(Deno.readTextFileSync(`${root}/file`), "new");
  strictEqual(Deno.readTextFileSync(`${root}/link`), "mine");
  strictEqual(Deno.readTextFileSync(scratch.join("outside/victim")), "untouched");
  strictEqual((Deno.statSync(scratch.join("outside/victim")).mode ?? 0) & 0o777, 0o644);
  deepStrictEqual(names(scratch.join("outside")), ["victim"]);
  deepStrictEqual(names(`${root}/dir`), ["kept", "more", "through"]);
  strictEqual(Deno.lstatSync(`${root}/out`).isDirectory, true);
  strictEqual(Deno.statSync(`${root}/h`).ino, Deno.statSync(`${root}/dir/kept`).ino);
});

sharedDaemon.test("a member that comes twice: the later one counts", async ({ daemon, scratch }) => {
  const root = scratch.join("root");
  await daemon.guest.uploadTar(
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
  );
  strictEqual(Deno.readTextFileSync(`${root}/f`), "two");
  strictEqual(Deno.readTextFileSync(`${root}/l`), "one");
  strictEqual((Deno.statSync(`${root}/d`).mode ?? 0) & 0o777, 0o711);
  deepStrictEqual(names(root), ["d", "f", "h", "l"]);
});

sharedDaemon.test("a root that is no directory is 500, one that is a symlink is followed", async ({ daemon, scratch }) => {
  const body = archive([{ name: "f", content: "x" }]);
  const file = scratch.file("file", "x");
  await plain(await putTar(daemon, file, body), 500);
  await plain(await putTar(daemon, `${file}/below`, body), 500);
  Deno.mkdirSync(scratch.join("dir"));
  Deno.symlinkSync("dir", scratch.join("link"));
  await daemon.guest.uploadTar(scratch.join("link"), body);
  deepStrictEqual(names(scratch.join("dir")), ["f"]);
  Deno.symlinkSync("nowhere", scratch.join("dangling"));
  for (const path of ["dangling", "dangling/root", "dangling/above/root"]) {
    await plain(await putTar(daemon, scratch.join(path), body), 500);
  }
  await daemon.guest.uploadTar(scratch.join("made/root/."), body);
  deepStrictEqual(names(scratch.path), ["dangling", "dir", "file", "link", "made"]);
  deepStrictEqual(names(scratch.join("made/root")), ["f"]);
});

sharedDaemon.test("long names, odd bytes and names of 4,096 bytes are extracted", async ({ daemon, scratch }) => {
  const root = scratch.join("root");
  const deep = `${"x".repeat(254)}/`.repeat(16) + "y".repeat(16);
  strictEqual(deep.length, 4096);
  await daemon.guest.uploadTar(
    root,
    archive([
      extended({ path: "p".repeat(200), mtime: "-1.5" }, { name: "short", content: "pax" }),
      { name: "././@LongLink", type: "L", content: `${"g".repeat(201)}\0` },
      { name: "cut", content: "gnu" },
      { name: "././@LongLink", type: "K", content: `${"t".repeat(300)}\0` },
      { name: "far", type: "2", link: "cut" },
      { name: Uint8Array.of(0xff, 0xfe, 10, 13), content: "bytes" },
    ]),
  );
  const far = scratch.join("far");
  const body = archive([extended({ path: deep }, { name: "n", content: "deep" })]);
  await daemon.guest.uploadTar(far, body);
  strictEqual(Deno.readTextFileSync(`${root}/${"p".repeat(200)}`), "pax");
  strictEqual(Deno.statSync(`${root}/${"p".repeat(200)}`).mtime?.getTime(), -1500);
  strictEqual(Deno.readTextFileSync(`${root}/${"g".repeat(201)}`), "gnu");
  strictEqual(Deno.readLinkSync(`${root}/far`), "t".repeat(300));
  const listed = treeOf(root);
  strictEqual(listed.some((line) => line.startsWith("\xff\xfe\n\r 5 ")), true);
  const bottom = output("find", far, "-name", "y".repeat(16), "-size", "4c");
  strictEqual(bottom.length, `${far}/${deep}`.length);
  output("rm", "-rf", far);
});

withDaemonAsRoot.test("a client that vanishes leaves nothing, not even the root's parents", async ({ daemon, scratch }) => {
  const fds = daemon.fdCount();
  const connection = await daemon.connect(
    daemon.request("PUT", fileUrl("tar", scratch.join("a/root")), [sized(4000000)]),
  );
  await connection.send(archive([{ name: "f", content: "x".repeat(1_000_000) }]));
  connection[Symbol.dispose]();
  await eventually("the spool closed", () => daemon.fdCount() <= fds);
  deepStrictEqual(names(scratch.path), []);
});
