import { deepStrictEqual, match, ok, rejects, strictEqual } from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { eventually, stalled, within } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { closing, FIN, frame, OP } from "../support/frames.ts";
import { TunnelClient, UPGRADE } from "../support/tunnel_client.ts";
import { sharedTunnel } from "../support/with_tunnel.ts";
import { Guest } from "../support/tunnel_guest.ts";
import { sharedDaemon, withDaemon, withDaemonAsRoot } from "../support/with_daemon.ts";

const MIB = 1 << 20;

function upgradeRequest(daemon: Daemon, guest: Guest): Uint8Array {
  return daemon.request("GET", `/v1/tcp?port=${guest.port}`, UPGRADE);
}

sharedDaemon.test("a guest that sends and closes at once is heard to its last byte", async ({ daemon }) => {
  using guest = new Guest();
  for (let turn = 0; turn < 10; turn++) {
    using client = await TunnelClient.open(daemon, `?port=${guest.port}`);
    using connection = await guest.accept();
    await connection.send(new Uint8Array(3 * MIB));
    connection.socket.close();
    await client.bytes(3 * MIB);
    strictEqual((await client.closed()).code, 1000);
  }
});

sharedDaemon.test("a guest that closes with the client's bytes still coming cuts none of its own", async ({ daemon }) => {
  using guest = new Guest();
  for (let turn = 0; turn < 10; turn++) {
    using client = await TunnelClient.open(daemon, `?port=${guest.port}`);
    using connection = await guest.accept();
    const flood = (async (): Promise<void> => {
      for (let round = 0; round < 40; round++) await client.say(new Uint8Array(65536));
    })();
    await connection.bytes(65536);
    await connection.send("the answer");
    // What it has not read makes the kernel answer with a reset, behind the bytes just sent.
    connection.socket.close();
    strictEqual(await client.text(10), "the answer");
    await flood.catch(() => {});
    // Whether the kernel tells of the reset depends on how much was still to come.
    const { code } = await client.closed();
    ok(code === 4500 || code === 1000, `${code}`);
  }
});

sharedTunnel.test("what a client sends before it answers the guest's end still reaches the guest", async ({ client, connection }) => {
  await connection.send("done");
  await connection.socket.closeWrite();
  strictEqual(await client.text(4), "done");
  const close = await client.frame();
  strictEqual(close?.opcode, OP.close);
  await client.say("but one thing more");
  await client.send(closing(1000));
  strictEqual(await connection.text(18), "but one thing more");
  strictEqual(await connection.ending(), "end");
  await client.ended();
});

sharedTunnel.test("a client that closes with megabytes in flight cuts none of them", async ({ client, connection }) => {
  const size = 12 * MIB;
  const sending = (async (): Promise<void> => {
    for (let at = 0; at < size; at += 65536) await client.say(new Uint8Array(65536));
    await client.send(closing(1000));
  })();
  // A slow guest that talks all the while: a connection closed over it would be answered with a
  // reset, and what the kernel still held for the guest would be gone.
  let heard = 0;
  const buffer = new Uint8Array(4096);
  for (;;) {
    await connection.send("and another thing");
    const count = await within("the client's bytes", connection.socket.read(buffer));
    if (count === null) break;
    heard += count;
  }
  strictEqual(heard, size);
  await within("the client's last byte", sending);
});

sharedDaemon.test("a guest that resets is a failure in mid-relay, behind what it sent", async ({ daemon }) => {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const accepted = once(server, "connection");
  using client = await TunnelClient.open(daemon, `?port=${port}`);
  const [guest] = await within("a dial", accepted) as [Socket];
  const closed = once(server.close(), "close");
  guest.write("first");
  strictEqual(await client.text(5), "first");
  guest.resetAndDestroy();
  const { code, reason } = await client.closed();
  strictEqual(code, 4500);
  match(reason, new RegExp(`port ${port}\\b.*ECONNRESET`));
  await closed;
});

sharedDaemon.test("a client that vanishes ends the guest's stream", async ({ daemon }) => {
  using guest = new Guest();
  {
    const client = await TunnelClient.open(daemon, `?port=${guest.port}`);
    using connection = await guest.accept();
    await client.say("bye");
    client.socket.close();
    strictEqual(await connection.text(3), "bye");
    strictEqual(await connection.ending(), "end");
  }
  // One that never said a word, not even in a frame.
  const client = await TunnelClient.open(daemon, `?port=${guest.port}`);
  using connection = await guest.accept();
  client.socket.close();
  strictEqual(await connection.ending(), "end");
});

withDaemon.test("a client that resets right behind its upgrade is no error of the daemon's", async ({ daemon }) => {
  using guest = new Guest();
  const request = upgradeRequest(daemon, guest);
  const resetting = async (): Promise<void> => {
    const client = connect(daemon.port, "127.0.0.1");
    await once(client, "connect");
    client.once("data", () => client.resetAndDestroy()).write(request);
    await once(client, "close");
  };
  // Many at once, so that some are gone between their answer and what follows it.
  for (let turn = 0; turn < 10; turn++) await Promise.all(Array.from({ length: 50 }, resetting));
  strictEqual(await daemon.stop(), 0);
  await daemon.log.ended;
  deepStrictEqual(daemon.log.lines.filter(({ level }) => level === "error"), []);
});

withDaemon.test("a guest that never accepts is given up after two seconds", async ({ daemon }) => {
  // A queue of one, and nobody who takes from it: further dials are never answered.
  using full = Deno.listen(
    { hostname: "127.0.0.1", port: 0, tcpBacklog: 1 } as Deno.TcpListenOptions,
  );
  const { port } = full.addr;
  const waiting = [await Deno.connect({ port }), await Deno.connect({ port })];
  try {
    using client = await TunnelClient.open(daemon, `?port=${port}`);
    const begun = performance.now();
    const { code, reason } = await client.closed();
    strictEqual(code, 4502);
    match(reason, new RegExp(`port ${port}\\b.*ETIMEDOUT`));
    const tookMs = performance.now() - begun;
    ok(tookMs > 1500 && tookMs < 10_000, `${tookMs} ms`);
  } finally {
    waiting.forEach((connection) => connection.close());
  }
});

withDaemon.test("terminate ends every tunnel with 1001, also one whose client does not answer", async ({ daemon }) => {
  using guest = new Guest();
  using polite = await TunnelClient.open(daemon, `?port=${guest.port}`);
  using _one = await guest.accept();
  using silent = await TunnelClient.open(daemon, `?port=${guest.port}`);
  using _two = await guest.accept();
  await (await daemon.hook("terminate")).body?.cancel();
  strictEqual((await polite.closed()).code, 1001);
  const close = await silent.frame();
  strictEqual(close?.opcode, OP.close);
  strictEqual(await daemon.end(), 0);
});

withDaemonAsRoot.test("a tunnel whose guest takes nothing is gone within a second of its client's reset", async ({ daemon }) => {
  using guest = new Guest();
  // One that stays: what all tunnels need is there from now on.
  using _open = await TunnelClient.open(daemon, `?port=${guest.port}`);
  using _taken = await guest.accept();
  const descriptors = daemon.fdCount();
  const client = connect(daemon.port, "127.0.0.1");
  client.write(upgradeRequest(daemon, guest));
  await once(client, "data");
  using connection = await guest.accept();
  const message = frame(FIN | OP.binary, new Uint8Array(MIB));
  // More than the guest's kernel, the daemon and its kernel take together.
  for (let sent = 0; sent < 64; sent++) client.write(message);
  ok(await stalled("the client stalled", () => client.writableLength) > 0);
  client.resetAndDestroy();
  await eventually("its end", () => daemon.fdCount() <= descriptors, 2000);
  // What the guest's kernel has may be read; behind it there is no end that would look whole.
  await rejects(async () => {
    while (await connection.socket.read(new Uint8Array(MIB)) !== null);
  }, Deno.errors.ConnectionReset);
});

sharedTunnel.test("a client that does not answer the close frame loses its connection after five seconds", async ({ client, connection }) => {
  connection.socket.close();
  strictEqual((await client.frame())?.opcode, OP.close);
  const begun = performance.now();
  await client.ended();
  const tookMs = performance.now() - begun;
  ok(tookMs > 4500 && tookMs < 8000, `${tookMs} ms`);
});

withDaemonAsRoot.test("nothing of a tunnel is left once it has ended", async ({ daemon }) => {
  using guest = new Guest();
  const one = async (end: (client: TunnelClient) => Promise<unknown>): Promise<void> => {
    using client = await TunnelClient.open(daemon, `?port=${guest.port}`);
    using connection = await guest.accept();
    await client.say("x");
    await connection.text(1);
    await end(client);
  };
  const ends: ((client: TunnelClient) => Promise<unknown>)[] = [
    (client) => client.send(closing(1000)),
    (client) => Promise.resolve(client.socket.close()),
    (client) => client.send(frame(FIN | 3, "x")),
  ];
  // One that stays: the thread that pumps them, and what it needs, is there from now on.
  using _open = await TunnelClient.open(daemon, `?port=${guest.port}`);
  using _taken = await guest.accept();
  const descriptors = daemon.fdCount();
  for (let turn = 0; turn < 30; turn++) for (const end of ends) await one(end);
  await eventually("as few descriptors as before", () => daemon.fdCount() <= descriptors);
});
