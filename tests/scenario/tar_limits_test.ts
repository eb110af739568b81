import { match, ok } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { plain } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { getTar, putTar } from "../support/files_client.ts";
import { Scratch } from "../support/scratch.ts";
import { concat } from "../support/bytes.ts";
import { archive, member, octal } from "../support/tar_archive.ts";
import { withDaemon } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

asRoot.test("owners and sizes that no field of a header holds are in the extended one", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({
    env: { GUESTD_MAX_TAR_BYTES: String(10 * GIB) },
  });
  Deno.mkdirSync(scratch.join("t"));
  Deno.truncateSync(scratch.file("t/large", ""), 9 * GIB);
  Deno.chownSync(scratch.join("t/large"), 3_000_000, 4_000_000);
  Deno.utimeSync(scratch.join("t/large"), 1_000_000_000, 1_000_000_000);
  const response = await getTar(daemon, scratch.join("t"));
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  let head = "";
  while (head.length < 4096) {
    const { value } = await reader.read();
    head += new TextDecoder("latin1").decode(value);
  }
  await reader.cancel();
  for (const record of ["uid=3000000\n", "gid=4000000\n", "size=9663676416\n"]) {
    ok(head.includes(record), record);
  }
});

Deno.test("a name of more directories than members are allowed is refused", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_MAX_TAR_MEMBERS: "40" } });
  const body = (depth: number): Uint8Array<ArrayBuffer> =>
    archive([{ name: "first" }, { name: `${"a/".repeat(depth)}f` }]);
  await daemon.guest.uploadTar(scratch.join("r"), body(40));
  const line = await plain(await putTar(daemon, scratch.join("s"), body(41)), 413);
  match(line, /more directories than the members that are allowed/);
  ok(!scratch.has("s"));
});

withDaemon.test("memory stays flat through large archives, good and bad, and trees of many files", async ({ daemon, scratch }) => {
  const small = archive(
    Array.from({ length: 3000 }, (_, at) => ({ name: `d${at % 50}/${at}`, content: "x" })),
  );
  await daemon.guest.uploadTar(scratch.join("warm"), small);
  await (await daemon.guest.downloadTar(scratch.join("warm"))).bytes();
  await daemon.guest.writeFile(scratch.join("f"), new Uint8Array(5 * MIB));
  const idle = daemon.rss();
  let highest = 0;
  const look = (): void => void (highest = Math.max(highest, daemon.rss()));
  const size = 160 * MIB;
  const header = member({ name: "big", size: octal(size, 12) });
  const zeros = new Uint8Array(MIB);
  const body = (first: Uint8Array): ReadableStream<Uint8Array> =>
    ReadableStream.from((function* (): Generator<Uint8Array> {
      yield first;
      for (let sent = 0; sent < size; sent += zeros.length) {
        look();
        yield zeros;
      }
      yield new Uint8Array(1024);
    })());
  await daemon.guest.uploadTar(scratch.join("good"), body(header));
  const garbage = crypto.getRandomValues(new Uint8Array(512));
  await plain(await putTar(daemon, scratch.join("bad"), body(garbage)), 400);
  const response = await getTar(daemon, scratch.join("good"));
  for await (const piece of response.body as ReadableStream<Uint8Array>) {
    ok(piece.length > 0);
    look();
  }
  const many = daemon.guest.uploadTar(scratch.join("many"), concat([small]));
  const looking = async (): Promise<void> => {
    for (let times = 0; times < 20; times++) {
      await daemon.guest.health();
      look();
    }
  };
  await Promise.all([many, looking()]);
  ok(highest > 0 && highest - idle < 60e6, `${((highest - idle) / 1e6).toFixed(1)} MB above idle`);
  await eventually("nothing left of the bad one", () => !scratch.has("bad"));
});
