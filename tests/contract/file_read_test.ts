import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { output } from "../support/command.ts";
import { plain, text } from "../support/answers.ts";
import { within } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { getFile } from "../support/files_client.ts";
import { Scratch } from "../support/scratch.ts";
import { sharedDaemon, withNobody } from "../support/with_daemon.ts";

const KIB = 1024;

function bytes(length: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, at) => (at * 31 + (at >> 8)) & 0xff);
}

sharedDaemon.test("a file is answered byte for byte, with its length, whatever its size", async ({ daemon, scratch }) => {
  for (const size of [0, 1, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1, 3_000_001]) {
    const path = scratch.join(`of ${size} & more`);
    Deno.writeFileSync(path, bytes(size));
    const response = await getFile(daemon, path);
    strictEqual(response.status, 200);
    strictEqual(response.headers.get("content-type"), "application/octet-stream");
    strictEqual(response.headers.get("content-length"), String(size));
    deepStrictEqual(new Uint8Array(await response.arrayBuffer()), bytes(size));
  }
});

sharedDaemon.test("a file whose size lies is read to its end", async ({ daemon }) => {
  for (const path of ["/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"]) {
    const response = await getFile(daemon, path);
    const content = await text(response);
    strictEqual(response.headers.get("content-length"), String(content.length));
    match(content, /\n$/);
  }
});

Deno.test("a file that claims to be empty and goes on is read to its end, without a length", async () => {
  const path = "/proc/kallsyms";
  const first = Deno.readFileSync(path);
  if (first.length <= 256 * KIB) return console.log(`skipped: ${path} is small here`);
  await using daemon = await Daemon.bootstrapped();
  strictEqual(Deno.statSync(path).size, 0);
  const response = await getFile(daemon, path);
  strictEqual(response.headers.get("content-length"), null);
  const content = await response.bytes();
  deepStrictEqual(content, first);
  const window = await getFile(daemon, path, { start_line: "2", end_line: "2" });
  strictEqual(await text(window), `${new TextDecoder().decode(first).split("\n")[1]}\n`);
});

sharedDaemon.test("a line window is 1-based, inclusive, and owns its line ends", async ({ daemon, scratch }) => {
  const path = scratch.file("lines", "one\ntwo\r\n\nfour\nfive");
  const windows: readonly [start: string | null, end: string | null, found: string][] = [
    ["1", null, "one\ntwo\r\n\nfour\nfive"],
    [null, "2", "one\ntwo\r\n"],
    ["2", "2", "two\r\n"],
    ["3", "3", "\n"],
    ["4", "5", "four\nfive"],
    ["5", "18446744073709551615", "five"],
    ["6", null, ""],
    ["18446744073709551615", null, ""],
  ];
  for (const [start, end, found] of windows) {
    const response = await getFile(daemon, path, {
      ...(start === null ? {} : { start_line: start }),
      ...(end === null ? {} : { end_line: end }),
    });
    strictEqual(await text(response), found, `${start}-${end}`);
  }
});

sharedDaemon.test("a bad bound or path is 400 and named", async ({ daemon, scratch }) => {
  const path = scratch.file("f", "one\n");
  const bad: readonly [more: Record<string, string>, names: RegExp][] = [
    [{ start_line: "0" }, /start_line/],
    [{ start_line: "x" }, /start_line/],
    [{ start_line: "-1" }, /start_line/],
    [{ start_line: "18446744073709551616" }, /start_line/],
    [{ end_line: "1.0" }, /end_line/],
    [{ end_line: "0" }, /end_line/],
    [{ start_line: "3", end_line: "2" }, /end_line/],
    [{ path: "" }, /path/],
    [{ path: "a\0b" }, /path/],
  ];
  for (const [more, names] of bad) {
    match(await plain(await getFile(daemon, path, more), 400), names);
  }
  for (const query of ["", "?path", "?path=", "?Path=/x", "?path=%", "?path=%zz", "?path=%ff"]) {
    match(await plain(await daemon.fetch(`/v1/fs/file${query}`), 400), /path/);
  }
  scratch.file("a b+c&d=é", "found");
  for (const name of ["a+b%2Bc%26d=%C3%A9", "a%20b%2bc%26d%3dé"]) {
    const path = `${scratch.path}/${name}`;
    for (const query of [`pa%74h=${path}`, `&&x=%FF&%=1&path=${path}&path=x`]) {
      strictEqual(await text(await daemon.fetch(`/v1/fs/file?${query}`)), "found", query);
    }
  }
});

sharedDaemon.test("a directory is 400, what is absent 404, anything else that is no file 500", async ({ daemon, scratch }) => {
  const fifo = scratch.join("fifo");
  output("mkfifo", fifo);
  const socket = scratch.join("socket");
  using _listener = Deno.listen({ transport: "unix", path: socket });
  Deno.symlinkSync("loop", scratch.join("loop"));
  Deno.symlinkSync("nothing", scratch.join("dangling"));
  const file = scratch.file("file", "");
  const answers: readonly [path: string, status: number][] = [
    [scratch.path, 400],
    [`${scratch.path}/`, 400],
    [scratch.join("absent"), 404],
    [scratch.join("dangling"), 404],
    [`${file}/below`, 404],
    [fifo, 500],
    [socket, 500],
    ["/dev/zero", 500],
    [scratch.join("loop"), 500],
    [scratch.join("x".repeat(256)), 500],
    ["/" + "x/".repeat(3000), 500],
  ];
  for (const [path, status] of answers) {
    const line = await plain(await getFile(daemon, path), status);
    if (path.length < 200) match(line, new RegExp(RegExp.escape(path)));
  }
});

Deno.test("a symlink is followed, and a relative path starts at the working directory", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({ cwd: scratch.path });
  scratch.file("file", "content");
  Deno.symlinkSync("file", scratch.join("link"));
  strictEqual(await (await daemon.guest.readFile("link")).text(), "content");
});

withNobody.test("what the daemon may not read is 500", async ({ daemon, scratch }) => {
  const path = scratch.file("secret", "content", 0o600);
  const said = await plain(await getFile(daemon, path), 500);
  match(said, /secret: EACCES/);
  const line = await daemon.log.until("the failure", ({ msg }) => msg === "a transfer failed");
  deepStrictEqual([line["errno"], line["status"], line["reason"]], [13, 500, said]);
});

sharedDaemon.test("a file that is removed while it is read is read to its end", async ({ daemon, scratch }) => {
  const path = scratch.join("vanishing");
  Deno.writeFileSync(path, new Uint8Array(32 * 1024 * KIB).fill(7));
  const response = await getFile(daemon, path);
  Deno.removeSync(path);
  const content = await within("the whole file", response.bytes());
  strictEqual(content.length, 32 * 1024 * KIB);
  strictEqual(content.every((byte) => byte === 7), true);
});
