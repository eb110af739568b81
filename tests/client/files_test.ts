import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert/strict";
import {
  ConnectionLost,
  DiskFull,
  FileNotFound,
  Guest,
  Identity,
  Refused,
  type TreeSource,
} from "../../src/client/mod.ts";
import { digest, noise } from "../support/bytes.ts";
import { withOptions, withStarted } from "../support/with_daemon.ts";
import { withGuest } from "../support/with_guest.ts";

const MIB = 1024 * 1024;

withGuest.test("a file goes in and comes out, from whatever holds it", async ({ guest, scratch }) => {
  const bytes = noise(2 * MIB);
  const path = scratch.join("a dir/file+ü");
  const sources = [bytes, new Blob([bytes]), new Blob([bytes]).stream(), "ein Text: ü"];
  for (const source of sources) {
    await guest.writeFile(path, source, { mode: 0o640 });
    const wanted = typeof source === "string" ? new TextEncoder().encode(source) : bytes;
    const content = await guest.readFile(path);
    strictEqual(content.size, wanted.length);
    strictEqual(await digest(await content.bytes()), await digest(wanted));
  }
  strictEqual((Deno.statSync(path).mode ?? 0) & 0o777, 0o640);
  const { readable } = await guest.readFile(path);
  strictEqual(await new Response(readable).text(), "ein Text: ü");
  await rejects((await guest.readFile(path)).bytes(3), /more than 3 bytes/);
});

withGuest.test("lines come by number, without their ends", async ({ guest, scratch }) => {
  const path = scratch.file("lines", "one\ntwo\n\nvier ü\nlast");
  const lines = (first?: number, last?: number): Promise<string[]> =>
    Array.fromAsync(guest.readLines(path, { ...(first && { first }), ...(last && { last }) }));
  deepStrictEqual(await lines(), ["one", "two", "", "vier ü", "last"]);
  deepStrictEqual(await lines(2, 3), ["two", ""]);
  deepStrictEqual(await lines(5, 99), ["last"]);
  await rejects(lines(3, 2), { status: 400 });
});

withGuest.test("what is not there or cannot be is told apart", async ({ guest, scratch }) => {
  await rejects(guest.readFile(scratch.join("nothing")), FileNotFound);
  await rejects(Array.fromAsync(guest.downloadTree(scratch.join("nothing"))), FileNotFound);
  await rejects(guest.readFile(scratch.path), { status: 400 });
  await rejects(guest.writeFile(scratch.path, "x"), { name: "Refused", status: 500 });
});

withOptions({ env: { GUESTD_DISK_RESERVE_BYTES: String(2 ** 60) } }).test(
  "a guest at its reserve says so before a body was sent",
  async ({ daemon, scratch }) => {
    const guest = new Guest(daemon.url, { token: daemon.token });
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(65536)),
    });
    await rejects(guest.writeFile(scratch.join("x"), endless), DiskFull);
  },
);

withGuest.test("a download that is cut is an error, and an upload of bytes is sent again", async ({ cutGuest, proxy, scratch }) => {
  const path = scratch.file("bytes", noise(2 * MIB));
  proxy.cutAfter = () => 1_000_000;
  await rejects(async () => await (await cutGuest.readFile(path)).bytes(), ConnectionLost);
  proxy.cutAfter = (connection) => connection === 2 ? 1 : undefined;
  await cutGuest.writeFile(path, "short");
  strictEqual(Deno.readTextFileSync(path), "short");
});

withGuest.test("an aborted transfer ends with the reason of its signal", async ({ guest, scratch }) => {
  const controller = new AbortController();
  const { signal } = controller;
  const content = await guest.readFile("/dev/zero", { signal }).catch((error) => error);
  ok(content instanceof Refused);
  const stuck = new ReadableStream<Uint8Array>();
  const upload = guest.writeFile(scratch.join("never"), stuck, { signal });
  controller.abort(new Error("enough"));
  await rejects(upload, /enough/);
  strictEqual(scratch.has("never"), false);
});

withGuest.test("a tree goes in and comes out member by member", async ({ guest, scratch }) => {
  const long = `${"long/".repeat(40)}name`;
  const bytes = noise(300_000);
  const mtime = new Date("2020-01-02T03:04:05Z");
  const members: TreeSource[] = [
    { name: "sub", type: "directory", mode: 0o750, mtime },
    { name: "sub/bytes", body: bytes, mode: 0o755, mtime },
    { name: "sub/streamed", body: new Blob(["abc"]).stream(), size: 3, mtime },
    { name: "empty", mtime },
    { name: "link", type: "symlink", linkname: "sub/bytes", mtime },
    { name: long, body: "ü", mtime },
  ];
  const root = scratch.join("tree");
  await guest.uploadTree(root, members);
  strictEqual(await digest(Deno.readFileSync(`${root}/link`)), await digest(bytes));
  const found = new Map<string, string>();
  for await (
    const { name, type, mode, size, mtime: at, linkname, body } of guest.downloadTree(root)
  ) {
    // One body in three is not read: the next member comes nevertheless.
    if (name === "sub/streamed") strictEqual(await new Response(body).text(), "abc");
    if (name === "sub/bytes") {
      strictEqual(await digest(await new Response(body).bytes()), await digest(bytes));
    }
    if (type === "file") strictEqual(at.getTime(), mtime.getTime());
    found.set(name, [type, mode.toString(8), size, linkname].join(" "));
  }
  const wanted = ["sub/", "sub/bytes", "sub/streamed", "empty", "link", long];
  deepStrictEqual(wanted.map((name) => found.get(name)), [
    "directory 750 0 ",
    "file 755 300000 ",
    "file 644 3 ",
    "file 644 0 ",
    "symlink 777 0 sub/bytes",
    "file 644 2 ",
  ]);
  const { readable } = await guest.downloadTar(root);
  await guest.uploadTar(scratch.join("copy"), readable);
  strictEqual(await digest(Deno.readFileSync(scratch.join("copy/link"))), await digest(bytes));
});

withGuest.test("a member that cannot be packed or taken changes nothing", async ({ guest, scratch }) => {
  const root = scratch.join("tree");
  const failing = new ReadableStream<Uint8Array>({
    pull: () => Promise.reject(new Error("no source")),
  });
  const first = { name: "first", body: "x" };
  await rejects(
    guest.uploadTree(root, [first, { name: "second", body: failing, size: 3 }]),
    /no source/,
  );
  await rejects(guest.uploadTree(root, [first, { name: "../out", body: "x" }]), { status: 400 });
  strictEqual(scratch.has("tree"), false);
});

withStarted.test("hooks, health, procs and schema", async ({ daemon }) => {
  const guest = new Guest(daemon.url, { token: "secret ü" });
  await guest.hooks.ready();
  strictEqual((await guest.health()).bootstrapped, false);
  const identity = Identity.generate();
  await guest.hooks.run({ token: "secret ü", env: { GREETING: "hello" }, identity });
  await rejects(guest.hooks.run({ token: "another" }), { name: "Refused", status: 409 });
  const child = await guest.shell("echo $GREETING; exec sleep 600").spawn();
  await child.stdout.getReader().read();
  const [group, ...others] = await guest.procs();
  deepStrictEqual([group?.exec_id, group?.pids.length, others], [child.id, 1, []]);
  await child.kill();
  const { hooks, execs, version } = await guest.health();
  deepStrictEqual(hooks.map(({ hook }) => hook), ["ready", "run", "run"]);
  strictEqual(execs, 1);
  const { limits, daemon_version } = await guest.schema();
  deepStrictEqual([limits.max_stdin_write_bytes, daemon_version], [MIB, version]);
  await guest.hooks.terminate();
  strictEqual(await daemon.end(), 0);
});
