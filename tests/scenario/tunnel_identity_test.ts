import { ok, rejects, strictEqual } from "node:assert/strict";
import { portPrologue, READY, type Session } from "../../src/client/noise.ts";
import { FIN, frame, OP } from "../support/frames.ts";
import { TunnelClient } from "../support/tunnel_client.ts";
import { House, OFFER, text } from "../support/tunnel_house.ts";
import { NONE } from "../support/handshake.ts";

House.test("a client that proves itself is relayed, under either prologue, with or without a payload", async (house) => {
  for (const bound of [false, true]) {
    for (const payload of [NONE, OFFER, new Uint8Array([0]), new Uint8Array([0xfe])]) {
      using tunnel = await house.tunnel(payload, bound);
      strictEqual(tunnel.session.payload.toHex(), payload.length === 0 ? "" : "01");
      await tunnel.hello();
    }
  }
});

House.test("chunks are of 32768 bytes at most, and up to 65519 are taken", async (house) => {
  using tunnel = await house.tunnel();
  const { client, session, connection } = tunnel;
  const sizes = [65519, 1, 32768, 65519];
  for (const size of sizes) await client.say(session.seal(new Uint8Array(size).fill(size % 251)));
  for (const size of sizes) {
    ok((await connection.bytes(size)).every((byte) => byte === size % 251));
  }
  const total = 1 << 20;
  await connection.send(new Uint8Array(total).fill(9));
  for (let heard = 0; heard < total;) {
    const plain = session.open(await client.message());
    ok(plain.length > 0 && plain.length <= 32768, `${plain.length}`);
    ok(plain.every((byte) => byte === 9));
    heard += plain.length;
  }
});

House.test("a message in fragments is one message", async (house) => {
  using tunnel = await house.tunnel();
  const { client, session, connection } = tunnel;
  const sealed = session.seal("in three parts");
  await client.send(
    frame(OP.binary, sealed.subarray(0, 3)),
    frame(FIN | OP.ping, "x"),
    frame(OP.continuation, sealed.subarray(3, 20)),
    frame(FIN | OP.continuation, sealed.subarray(20)),
  );
  strictEqual(await connection.text(14), "in three parts");
});

House.test("the confirmation and what follows it may come in one piece", async (house) => {
  using client = await house.ask();
  const handshake = house.handshake(portPrologue(house.guest.port));
  await client.say(handshake.first(OFFER));
  const session = handshake.finish(await client.message());
  strictEqual(house.guest.dials, 0);
  await client.send(
    frame(FIN | OP.binary, session.seal(READY)),
    frame(FIN | OP.binary, session.seal("at once")),
  );
  using connection = await house.guest.accept();
  strictEqual(await connection.text(7), "at once");
});

House.test("both ends say when they are done, and the guest sees the client's end as one", async (house) => {
  {
    using tunnel = await house.tunnel();
    const { client, session, connection } = tunnel;
    await client.say(session.seal("question"));
    await client.say(session.seal(NONE));
    strictEqual(await connection.text(8), "question");
    strictEqual(await connection.ending(), "end");
    // Half an end: the guest may still answer.
    await connection.send("answer");
    connection.socket.close();
    strictEqual(text(session.open(await client.message())), "answer");
    strictEqual(session.open(await client.message()).length, 0);
    strictEqual((await client.closed()).code, 1000);
  }
  {
    using tunnel = await house.tunnel(NONE);
    const { client, session, connection } = tunnel;
    // Without an offer an empty message means nothing, and none is sent.
    await client.say(session.seal(NONE));
    await client.say(session.seal("still there"));
    strictEqual(await connection.text(11), "still there");
    connection.socket.close();
    strictEqual((await client.closed()).code, 1000);
  }
});

House.test(
  "a client that leaves without its agreed end is cut short, and its guest reset",
  async (house, test) => {
    const leave: Record<string, (client: TunnelClient) => Promise<unknown>> = {
      "with a close frame": (client) =>
        client.send(frame(FIN | OP.close, new Uint8Array([3, 232]))),
      "without a word": (client) => Promise.resolve(client.socket.close()),
    };
    for (const [how, act] of Object.entries(leave)) {
      for (const [payload, ending] of [[OFFER, "reset"], [NONE, "end"]] as const) {
        await test.step(`${how}, ${ending}`, async () => {
          using tunnel = await house.tunnel(payload);
          const { client, session, connection } = tunnel;
          await client.say(session.seal("half of i"));
          strictEqual(await connection.text(9), "half of i");
          await act(client);
          strictEqual(await connection.ending(), ending);
        });
      }
    }
    await test.step("after its end it may leave as it likes", async () => {
      using tunnel = await house.tunnel();
      const { client, session, connection } = tunnel;
      await client.say(session.seal(NONE));
      strictEqual(await connection.ending(), "end");
      client.socket.close();
      await connection.send("into the void");
    });
  },
);

House.test("what a client sent before it answered the guest's end still reaches the guest, which is reset behind it", async (house) => {
  using tunnel = await house.tunnel();
  const { client, session, connection } = tunnel;
  await connection.socket.closeWrite();
  strictEqual(session.open(await client.message()).length, 0);
  const close = await client.frame();
  strictEqual(close?.opcode, OP.close);
  const [size, count] = [30_000, 40];
  for (let sent = 0; sent < count; sent++) {
    await client.say(session.seal(new Uint8Array(size).fill(sent)));
  }
  // The answer to the close frame, and no end of its own.
  await client.send(frame(FIN | OP.close, close.payload));
  await client.ended();
  for (let heard = 0; heard < count; heard++) {
    ok((await connection.bytes(size)).every((byte) => byte === heard));
  }
  strictEqual(await connection.ending(), "reset");
});

House.test(
  "a message that is not the client's ends the relay and resets the guest",
  async (house, test) => {
    const broken: Record<string, (session: Session) => Uint8Array> = {
      "a flipped bit": (session) => {
        const sealed = session.seal("transfer 10");
        sealed[9] = (sealed[9] ?? 0) ^ 0x10;
        return frame(FIN | OP.binary, sealed);
      },
      "a dropped message": (session) => {
        session.seal("never sent");
        return frame(FIN | OP.binary, session.seal("the next"));
      },
      "a message sent twice": (session) => {
        const sealed = frame(FIN | OP.binary, session.seal("once"));
        return new Uint8Array([...sealed, ...sealed]);
      },
      "a truncated message": (session) =>
        frame(FIN | OP.binary, session.seal("cut off").subarray(0, 20)),
      "an empty frame": () => frame(FIN | OP.binary),
      "plaintext": () => frame(FIN | OP.binary, "no ciphertext at all"),
      "text": () => frame(FIN | OP.text, "no ciphertext at all"),
      "a frame beyond what Noise allows": () => frame(FIN | OP.binary, new Uint8Array(65536)),
      "a message after the end of stream": (session) =>
        new Uint8Array([
          ...frame(FIN | OP.binary, session.seal(NONE)),
          ...frame(FIN | OP.binary, session.seal("too late")),
        ]),
    };
    for (const [name, bytes] of Object.entries(broken)) {
      await test.step(name, async () => {
        using tunnel = await house.tunnel();
        const { client, session, connection } = tunnel;
        await tunnel.hello();
        await client.send(bytes(session));
        strictEqual((await client.closed()).code, 4500);
        // What was authentic may be read before the reset; what was not may not.
        await rejects(async () => {
          for (;;) {
            const buffer = new Uint8Array(100);
            const count = await connection.socket.read(buffer);
            if (count === null) return;
            strictEqual(text(buffer.subarray(0, count)), "once");
          }
        }, Deno.errors.ConnectionReset);
      });
    }
  },
);

House.test("the keys of the first run hook stay, whatever a replay brings, and without identity=1 it still relays in plain", async (house) => {
  const { daemon } = house;
  const payload = JSON.stringify({
    agent_token: daemon.token,
    identity_seed: new Uint8Array(32).fill(1).toBase64(),
    identity_host_public_key: new Uint8Array(32).fill(9).toBase64(),
  });
  const replayed = await daemon.hook("run", { runHookPayload: payload });
  await replayed.body?.cancel();
  strictEqual(replayed.status, 200);
  using tunnel = await house.tunnel();
  await tunnel.hello();
  using client = await TunnelClient.open(daemon, `?port=${house.guest.port}`);
  using connection = await house.guest.accept();
  await client.say("plain");
  strictEqual(await connection.text(5), "plain");
});
