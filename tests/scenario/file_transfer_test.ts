import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { digest, noise } from "../support/bytes.ts";
import { plain } from "../support/answers.ts";
import { within } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { getFile, pieces, putFile, putTar } from "../support/files_client.ts";
import { Scratch } from "../support/scratch.ts";
import { archive } from "../support/tar_archive.ts";
import { Tmpfs } from "../support/tmpfs.ts";
import { withDaemon } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
const names = (dir: string): string[] => [...Deno.readDirSync(dir)].map(({ name }) => name).sort();

withDaemon.test("every chunk of a long transfer arrives as it was, up and down", async ({ daemon, scratch }) => {
  const content = noise(48 * MIB + 12_345);
  const wanted = await digest(content);
  await daemon.guest.writeFile(scratch.join("f"), content);
  strictEqual(await digest(Deno.readFileSync(scratch.join("f"))), wanted);
  // Slowly at first, so that every buffer between the disk and the peer is full.
  const response = await getFile(daemon, scratch.join("f"));
  const reader = (response.body as ReadableStream<Uint8Array<ArrayBuffer>>).getReader();
  const received: Uint8Array<ArrayBuffer>[] = [];
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    if (received.push(next.value) === 1) await daemon.guest.health();
  }
  strictEqual(await digest(await new Blob(received).bytes()), wanted);
});

withDaemon.test("of uploads that race to one path each is whole, and one of them is there", async ({ daemon, scratch }) => {
  const path = scratch.join("made/by/whom");
  const contents = [1, 2, 3, 4, 5, 6].map((byte) => new Uint8Array(2 * MIB + byte).fill(byte));
  let reading = true;
  const seen = new Set<string>();
  const watching = (async (): Promise<void> => {
    while (reading) {
      const response = await getFile(daemon, path);
      const body = await response.bytes();
      if (response.status === 200) seen.add(`${body.length - 2 * MIB} ${new Set(body).size}`);
    }
  })();
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(contents.map((content) => putFile(daemon, path, content)));
    deepStrictEqual(answers.map(({ status }) => status), contents.map(() => 204));
    await Promise.all(answers.map((answer) => answer.text()));
    const there = Deno.readFileSync(path);
    strictEqual(there.length, 2 * MIB + (there[0] ?? 0));
    strictEqual(new Set(there).size, 1);
  }
  reading = false;
  await watching;
  for (const look of seen) match(look, /^[1-6] 1$/);
  deepStrictEqual(names(scratch.join("made/by")), ["whom"]);
});

Deno.test("uploads that fail beside others never take the directory from them", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_MAX_BODY_BYTES: "300000" } });
  for (let round = 0; round < 20; round++) {
    const dir = scratch.join(`round${round}/a/b`);
    const answers = await Promise.all([
      putFile(daemon, `${dir}/good`, pieces(new Uint8Array(1000), new Uint8Array(1000))),
      putFile(daemon, `${dir}/bad`, pieces(new Uint8Array(200_000), new Uint8Array(200_000))),
    ]);
    deepStrictEqual(answers.map(({ status }) => status), [204, 413]);
    await Promise.all(answers.map((answer) => answer.text()));
    deepStrictEqual(names(dir), ["good"]);
  }
});

withDaemon.test("memory stays flat through 128 MiB in each direction", async ({ daemon, scratch }) => {
  const path = scratch.join("f");
  await daemon.guest.writeFile(path, new Uint8Array(MIB));
  await (await daemon.guest.readFile(path)).bytes();
  const idle = daemon.rss();
  const chunk = new Uint8Array(4 * MIB).fill(1);
  let highest = 0;
  const body = ReadableStream.from((function* (): Generator<Uint8Array> {
    for (let sent = 0; sent < 128 * MIB; sent += chunk.length) {
      highest = Math.max(highest, daemon.rss());
      yield chunk;
    }
  })());
  await daemon.guest.writeFile(path, body);
  ok(highest - idle < 60e6, `up: ${((highest - idle) / 1e6).toFixed(1)} MB above idle`);
  highest = 0;
  const response = await getFile(daemon, path);
  let received = 0;
  for await (const piece of response.body as ReadableStream<Uint8Array>) {
    received += piece.length;
    if (received % (8 * MIB) < piece.length) highest = Math.max(highest, daemon.rss());
  }
  strictEqual(received, 128 * MIB);
  // What was sent must go at once: were it left to the collector, it would be more than this.
  ok(highest - idle < 40e6, `down: ${((highest - idle) / 1e6).toFixed(1)} MB above idle`);
});

Deno.test("a disk that is full: 500, the old file is whole, nothing is left", async () => {
  using disk = Tmpfs.mount(4 * MIB);
  if (disk === undefined) return console.log("skipped: a tmpfs cannot be mounted here");
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DISK_RESERVE_BYTES: "0" } });
  const old = disk.join("old");
  Deno.writeTextFileSync(old, "before");
  match(await plain(await putFile(daemon, old, new Uint8Array(6 * MIB)), 500), /ENOSPC/);
  match(
    await plain(await putFile(daemon, disk.join("a/b"), new Uint8Array(6 * MIB)), 500),
    /ENOSPC/,
  );
  strictEqual(Deno.readTextFileSync(old), "before");
  deepStrictEqual(names(disk.path), ["old"]);
  await daemon.guest.writeFile(old, new Uint8Array(3 * MIB));
});

Deno.test("a disk that fills while a tree is extracted: 500 names the first member missing", async () => {
  using disk = Tmpfs.mount(4 * MIB);
  if (disk === undefined) return console.log("skipped: a tmpfs cannot be mounted here");
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DISK_RESERVE_BYTES: "0" } });
  // Spool and tree together do not fit.
  const body = archive(
    Array.from({ length: 5 }, (_, at) => ({ name: `f${at}`, content: new Uint8Array(500_000) })),
  );
  const root = disk.join("root");
  const line = await plain(await putTar(daemon, root, body), 500);
  match(line, /Cannot extract f[1-4]: it and the members after it are missing: ENOSPC/);
  const missing = Number(/extract f([0-9])/.exec(line)?.[1]);
  deepStrictEqual(names(root), Array.from({ length: missing }, (_, at) => `f${at}`));
  for (const name of names(root)) strictEqual(Deno.statSync(`${root}/${name}`).size, 500_000);
  // An archive that cannot even be spooled changes nothing.
  const large = archive([{ name: "g", content: new Uint8Array(6 * MIB) }]);
  match(await plain(await putTar(daemon, disk.join("other"), large), 500), /ENOSPC/);
  deepStrictEqual(names(disk.path), ["root"]);
});

Deno.test("a file that is mounted over is written in place", async () => {
  using disk = Tmpfs.mount(4 * MIB);
  if (disk === undefined) return console.log("skipped: a tmpfs cannot be mounted here");
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DISK_RESERVE_BYTES: "0" } });
  Deno.writeTextFileSync(disk.join("source"), "a longer content than the new one");
  Deno.writeTextFileSync(disk.join("target"), "covered");
  using _bound = disk.bind("source", "target");
  await daemon.guest.writeFile(disk.join("target"), "new", { mode: 0o600 });
  strictEqual(Deno.readTextFileSync(disk.join("source")), "new");
  strictEqual((Deno.statSync(disk.join("source")).mode ?? 0) & 0o777, 0o600);
  deepStrictEqual(names(disk.path), ["source", "target"]);
});

Deno.test("a file system that is read-only refuses, and leaves no trace of the try", async () => {
  using disk = Tmpfs.mount(4 * MIB);
  if (disk === undefined) return console.log("skipped: a tmpfs cannot be mounted here");
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DISK_RESERVE_BYTES: "0" } });
  Deno.writeTextFileSync(disk.join("f"), "before");
  disk.remountReadOnly();
  for (const name of ["f", "new", "a/b"]) {
    match(await plain(await putFile(daemon, disk.join(name), "x"), 500), /EROFS/);
  }
  match(await plain(await putTar(daemon, disk.join("t"), archive([{ name: "f" }])), 500), /EROFS/);
});

Deno.test("a file that can be written on a file system that cannot is written in place", async () => {
  using disk = Tmpfs.mount(4 * MIB);
  using source = Tmpfs.mount(4 * MIB);
  if (!disk || !source) return console.log("skipped: a tmpfs cannot be mounted here");
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DISK_RESERVE_BYTES: "0" } });
  Deno.writeTextFileSync(source.join("file"), "a longer content than the new one");
  Deno.writeTextFileSync(disk.join("target"), "covered");
  using _bound = source.bindOver("file", disk.join("target"));
  disk.remountReadOnly();
  for (const body of ["new", new Uint8Array(3 * MIB)]) {
    await daemon.guest.writeFile(disk.join("target"), body);
    strictEqual(Deno.statSync(source.join("file")).size, body.length);
  }
});

withDaemon.test("a tree that changes while it is packed gives an archive that can be read", async ({ daemon, scratch }) => {
  Deno.mkdirSync(scratch.join("t"));
  for (let at = 0; at < 400; at++) Deno.writeFileSync(scratch.join(`t/f${at}`), noise(100_000));
  let changing = true;
  const changes = (async (): Promise<void> => {
    for (let at = 0; changing; at = (at + 7) % 400) {
      const path = scratch.join(`t/f${at}`);
      if (at % 3 === 0) await Deno.remove(path).catch(() => {});
      else if (at % 3 === 1) await Deno.truncate(path, at * 200).catch(() => {});
      else await Deno.writeFile(`${path}x`, new Uint8Array(at));
    }
  })();
  for (let round = 0; round < 3; round++) {
    const body = await (await daemon.guest.downloadTar(scratch.join("t"))).bytes();
    Deno.writeFileSync(scratch.join("tar"), body);
    const list = await new Deno.Command("tar", { args: ["-tf", scratch.join("tar")] }).output();
    strictEqual(new TextDecoder().decode(list.stderr), "");
  }
  changing = false;
  await within("the changes", changes);
});
