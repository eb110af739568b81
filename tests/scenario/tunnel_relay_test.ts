import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { once } from "node:events";
import { WebSocket } from "ws";
import { Guest as Client } from "../../src/client/guest.ts";
import { within } from "../support/await_event.ts";
import { digest, noise } from "../support/bytes.ts";
import { Daemon } from "../support/daemon.ts";
import { FIN, frame, OP } from "../support/frames.ts";
import { TunnelClient, UPGRADE } from "../support/tunnel_client.ts";
import { sharedTunnel } from "../support/with_tunnel.ts";
import { Guest } from "../support/tunnel_guest.ts";
import { echoed } from "../support/tunnel_echo.ts";
import { sharedDaemon } from "../support/with_daemon.ts";

sharedTunnel.test("a guest that speaks first is heard by a client that says nothing", async ({ client, connection }) => {
  await connection.send("220 ready");
  strictEqual(await client.text(9), "220 ready");
  await client.say("hello");
  strictEqual(await connection.text(5), "hello");
});

sharedDaemon.test("frames in one segment with the request are not lost, however many and wherever they are cut", async ({ daemon }) => {
  using guest = new Guest();
  for (const size of [1, 300, 1024, 5000, 70_000, 300_000, 1_100_000, 4_000_000]) {
    const sent = noise(size, size);
    const framed = frame(FIN | OP.binary, sent);
    // The last frame's end comes later, so that nothing but the daemon's own order holds it together.
    const cut = framed.length - Math.min(size, 1000);
    using client = await TunnelClient.ask(daemon, `?port=${guest.port}`, framed.subarray(0, cut));
    await client.send(framed.subarray(cut), frame(FIN | OP.binary, "and more"));
    await client.head();
    using connection = await guest.accept();
    const heard = await connection.bytes(size);
    strictEqual(await digest(heard), await digest(sent), `${size}`);
    strictEqual(await connection.text(8), "and more");
  }
});

sharedTunnel.test("a frame is a byte range: fragments, texts, empty ones and pings between them", async ({ client, connection }) => {
  await client.send(
    frame(OP.binary, "one "),
    frame(FIN | OP.ping, "are you there"),
    frame(OP.continuation, ""),
    frame(FIN | OP.continuation, "two "),
    frame(FIN | OP.pong, "unasked"),
    frame(OP.text, "thr"),
    frame(FIN | OP.continuation, "ee "),
    frame(FIN | OP.text, "\u00fc"),
    frame(FIN | OP.binary),
    frame(FIN | OP.ping),
  );
  const expected = new TextEncoder().encode("one two three \u00fc");
  deepStrictEqual(await connection.bytes(expected.length), expected);
  // Of pings that came together the last may be answered alone: section 5.5.3 of the RFC.
  const pongs: string[] = [];
  do {
    const pong = await client.frame();
    strictEqual(pong?.opcode, OP.pong);
    pongs.push(new TextDecoder().decode(pong.payload));
  } while (pongs.at(-1) !== "");
  strictEqual(["", "are you there,"].includes(pongs.join()), true, pongs.join());
  await connection.send("x");
  strictEqual(await client.text(1), "x");
});

sharedTunnel.test("many bytes arrive as they were sent, both ways at once", async ({ client, connection }) => {
  const [up, down] = [noise(24 << 20, 1), noise(24 << 20, 2)];
  const sizes = [1, 125, 126, 65535, 65536, 300_000, 7, 1_500_000];
  async function sendUp(): Promise<void> {
    let turn = 0;
    for (let at = 0; at < up.length;) {
      const size = sizes[turn++ % sizes.length] ?? 1;
      await client.send(frame(FIN | OP.binary, up.subarray(at, at + size)));
      at += size;
    }
  }
  const [heardUp, heardDown] = await Promise.all([
    connection.bytes(up.length),
    client.bytes(down.length),
    sendUp(),
    connection.send(down),
  ]);
  strictEqual(await digest(heardUp), await digest(up));
  strictEqual(await digest(heardDown), await digest(down));
});

sharedDaemon.test("the ws package speaks to it", async ({ daemon }) => {
  using guest = new Guest();
  guest.echo();
  const url = `ws://127.0.0.1:${daemon.port}/v1/tcp?port=${guest.port}`;
  const headers = { authorization: `Bearer ${daemon.token}` };
  const client = new WebSocket(url, { headers });
  await within("the tunnel open", once(client, "open"));
  client.send("through it");
  strictEqual(String((await within("the echo", once(client, "message")))[0]), "through it");
  client.close(1000);
  strictEqual((await within("the close", once(client, "close")))[0], 1000);
});

sharedDaemon.test("a connection that has served requests before is upgraded like a new one", async ({ daemon }) => {
  using guest = new Guest();
  using connection = await daemon.connect();
  for (let turn = 0; turn < 3; turn++) {
    strictEqual((await connection.ask("GET", "/v1/health")).status, 200);
  }
  await connection.send(daemon.request("GET", `/v1/tcp?port=${guest.port}`, UPGRADE));
  strictEqual((await connection.head()).status, 101);
  using accepted = await guest.accept();
  await connection.send(frame(FIN | OP.binary, "up"));
  strictEqual(await accepted.text(2), "up");
  await accepted.send("down");
  deepStrictEqual(await connection.more(), new Uint8Array([0x82, 4, 100, 111, 119, 110]));
});

Deno.test("a daemon that listens on all addresses relays for each of them", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_LISTEN: "[::]:0" } });
  using guest = new Guest();
  guest.echo();
  for (const host of ["127.0.0.1", "[::1]"]) {
    const client = new Client(`http://${host}:${daemon.port}`, { token: daemon.token });
    const tunnel = await client.connect(guest.port);
    const bytes = new TextEncoder().encode(host);
    deepStrictEqual(await echoed(tunnel, bytes), bytes);
    tunnel.close();
    strictEqual((await within("the close", tunnel.closed)).code, 1000);
  }
});
