// Run by npm_package_test.ts in an empty Node project that has the package: what a program would do with it.
import { strictEqual } from "node:assert/strict";
import { createServer } from "node:net";
import { FetchTransport, Guest, Identity, SocketTransport, SpawnFailed } from "@guestd/client";

const [url] = process.argv.slice(2);
const token = "a token";
const identity = Identity.generate();
await new Guest(url).hooks.run({ token, identity });
const echo = createServer((socket) => socket.pipe(socket)).listen(0, "127.0.0.1");
await new Promise((resolve) => echo.once("listening", resolve));
const bytes = crypto.getRandomValues(new Uint8Array(60_000));

for (const transport of [new FetchTransport(), new SocketTransport()]) {
  const guest = new Guest(url, { token, transport });
  const { stdout, code } = await guest.shell("head -c 3000000 /dev/zero; exit 7").output();
  strictEqual(`${code} ${stdout.length} ${stdout.some((byte) => byte !== 0)}`, "7 3000000 false");
  const child = await guest.command("cat", { stdin: "piped" }).spawn();
  await new Blob([bytes]).stream().pipeTo(child.stdin);
  strictEqual(Buffer.compare((await child.output()).stdout, bytes), 0);
  strictEqual(
    await guest.command("no-such-program").spawn().catch((e) => e instanceof SpawnFailed),
    true,
  );

  const root = `${process.cwd()}/tree`;
  await guest.uploadTree(root, [{ name: "a/file", body: bytes }, {
    name: "stream",
    body: new Blob(["x"]).stream(),
    size: 1,
  }]);
  strictEqual(Buffer.compare(await (await guest.readFile(`${root}/a/file`)).bytes(), bytes), 0);
  const names = [];
  for await (const { name } of guest.downloadTree(root)) names.push(name);
  strictEqual(names.join(), "./,a/,a/file,stream");

  for (const options of [{}, { identity }]) {
    await using_(await guest.connect(echo.address().port, options), async (tunnel) => {
      const writer = tunnel.writable.getWriter();
      const written = writer.write(bytes);
      const back = [];
      const reader = tunnel.readable.getReader();
      for (let size = 0; size < bytes.length;) {
        const { value } = await reader.read();
        back.push(value);
        size += value.length;
      }
      await written;
      reader.releaseLock();
      strictEqual(Buffer.compare(Buffer.concat(back), bytes), 0);
    });
  }
  transport.close();
}
echo.close();
console.log("all of it works");

// Node 22 has no `await using`.
async function using_(tunnel, body) {
  await body(tunnel);
  await tunnel[Symbol.asyncDispose]();
}
