import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { output } from "../support/command.ts";
import { plain } from "../support/answers.ts";
import { Daemon } from "../support/daemon.ts";
import { getTar } from "../support/files_client.ts";
import { Scratch } from "../support/scratch.ts";
import { listTar } from "../support/tar_list.ts";
import { treeOf } from "../support/tree.ts";
import { sharedDaemon } from "../support/with_daemon.ts";

sharedDaemon.test("a tree comes as pax members sorted by name, the root first", async ({ daemon, scratch }) => {
  Deno.chmodSync(scratch.path, 0o750);
  scratch.file("b", "content", 0o640);
  Deno.mkdirSync(scratch.join("a/empty"), { recursive: true });
  Deno.chmodSync(scratch.join("a"), 0o755);
  scratch.file("a/z", "");
  scratch.file("a.txt", "x");
  Deno.symlinkSync("../elsewhere", scratch.join("a/link"));
  Deno.linkSync(scratch.join("b"), scratch.join("same"));
  Deno.utimeSync(scratch.join("b"), 1_000_000_000, 1_234_567_890);
  const response = await getTar(daemon, scratch.path);
  strictEqual(response.status, 200);
  strictEqual(response.headers.get("content-type"), "application/x-tar");
  const members = listTar(await response.bytes());
  deepStrictEqual(
    members.map(({ name, type, link, mode }) => [name, type, link, mode.toString(8)]),
    [
      ["./", "5", "", "750"],
      ["a.txt", "0", "", "644"],
      ["a/", "5", "", "755"],
      ["a/empty/", "5", "", "755"],
      ["a/link", "2", "../elsewhere", "777"],
      ["a/z", "0", "", "644"],
      ["b", "0", "", "640"],
      ["same", "1", "b", "640"],
    ],
  );
  strictEqual(members[6]?.mtime, 1_234_567_890);
  deepStrictEqual([members[6]?.uid, members[6]?.owner], [Deno.uid(), ""]);
});

sharedDaemon.test("the same tree gives the same bytes, however its directories are laid out", async ({ daemon, scratch }) => {
  const order = ["c", "a", "b/x", "b/y"];
  for (const [root, names] of [["one", order], ["two", order.toReversed()]] as const) {
    for (const name of names) {
      Deno.mkdirSync(scratch.join(`${root}/${name}`), { recursive: true });
      const file = scratch.file(`${root}/${name}/f`, name);
      Deno.utimeSync(file, 1, 1);
    }
    for (const name of ["c", "a", "b/x", "b/y", "b", ""]) {
      Deno.utimeSync(scratch.join(`${root}/${name}`), 1, 1);
    }
  }
  const [one, two] = [
    await (await daemon.guest.downloadTar(scratch.join("one"))).bytes(),
    await (await daemon.guest.downloadTar(scratch.join("two"))).bytes(),
  ];
  deepStrictEqual(one, two);
});

sharedDaemon.test("sockets, fifos and devices are left out, a symlink as path is followed", async ({ daemon, scratch }) => {
  Deno.mkdirSync(scratch.join("dir"));
  scratch.file("dir/file", "x");
  output("mkfifo", scratch.join("dir/fifo"));
  using _listener = Deno.listen({ transport: "unix", path: scratch.join("dir/socket") });
  if (Deno.uid() === 0) output("mknod", scratch.join("dir/null"), "c", "1", "3");
  Deno.symlinkSync("dir", scratch.join("link"));
  const members = listTar(await (await daemon.guest.downloadTar(scratch.join("link"))).bytes());
  deepStrictEqual(members.map(({ name }) => name), ["./", "file"]);
});

sharedDaemon.test("what is absent is 404, what is no directory 400", async ({ daemon, scratch }) => {
  const file = scratch.file("file", "x");
  Deno.symlinkSync("nothing", scratch.join("dangling"));
  for (
    const [path, status] of [
      [scratch.join("absent"), 404],
      [scratch.join("dangling"), 404],
      [`${file}/below`, 404],
      [file, 400],
      ["/dev/null", 400],
      [scratch.join("x".repeat(256)), 500],
    ] as const
  ) {
    await plain(await getTar(daemon, path), status);
  }
  match(await plain(await getTar(daemon, ""), 400), /path/);
  match(await plain(await daemon.fetch("/v1/fs/tar"), 400), /path/);
  strictEqual((await daemon.fetch(`/v1/fs/tar?path=${scratch.path}&mode=bad`)).status, 200);
});

Deno.test("a tree beyond the limits is 413, one that meets them exactly comes", async () => {
  using scratch = new Scratch();
  const env = { GUESTD_MAX_TAR_MEMBERS: "4", GUESTD_MAX_TAR_BYTES: "10" };
  await using daemon = await Daemon.bootstrapped({ env });
  scratch.file("a", "12345");
  scratch.file("b", "12345");
  Deno.linkSync(scratch.join("a"), scratch.join("c"));
  strictEqual(listTar(await (await daemon.guest.downloadTar(scratch.path)).bytes()).length, 4);
  scratch.file("b", "123456");
  match(await plain(await getTar(daemon, scratch.path), 413), /10 bytes/);
  scratch.file("b", "");
  Deno.mkdirSync(scratch.join("d"));
  match(await plain(await getTar(daemon, scratch.path), 413), /4 members/);
});

sharedDaemon.test("names of any bytes and length come back from GNU tar as they were", async ({ daemon, scratch }) => {
  Deno.mkdirSync(scratch.join("tree"));
  const long = "d".repeat(120);
  Deno.mkdirSync(scratch.join(`tree/${long}/${long}`), { recursive: true });
  scratch.file(`tree/${long}/${long}/${"f".repeat(255)}`, "deep");
  scratch.file("tree/with\nnewline = and ünïcode", "odd");
  Deno.symlinkSync("t".repeat(300), scratch.join("tree/far"));
  output("sh", "-c", `cd ${scratch.join("tree")} && printf x > "$(printf '\\377\\001')"`);
  output("sh", "-c", `cd ${scratch.join("tree")} && printf x > "$(printf '\\376%0150d' 0)"`);
  Deno.writeFileSync(
    scratch.join("tar"),
    await (await daemon.guest.downloadTar(scratch.join("tree"))).bytes(),
  );
  Deno.mkdirSync(scratch.join("out"));
  output("tar", "-xf", scratch.join("tar"), "-C", scratch.join("out"));
  deepStrictEqual(
    treeOf(scratch.join("out"), { stat: true }),
    treeOf(scratch.join("tree"), { stat: true }),
  );
});

sharedDaemon.test("a tree hundreds of directories deep is packed", async ({ daemon, scratch }) => {
  const script = `cd ${scratch.path} && mkdir t && cd t && i=0 && while [ $i -lt 300 ]; do ` +
    `mkdir a${"x".repeat(20)} b && echo $i > f && cd a* && i=$((i+1)); done`;
  output("bash", "-c", script);
  const members = listTar(await (await daemon.guest.downloadTar(scratch.join("t"))).bytes());
  strictEqual(members.length, 1 + 3 * 300);
  strictEqual(members.filter(({ name }) => name.endsWith("/f")).length, 299);
  output("rm", "-rf", scratch.join("t"));
});
