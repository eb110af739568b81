import { ok, strictEqual, throws } from "node:assert/strict";
import { Daemon } from "../support/daemon.ts";
import { portPrologue, READY, type Session } from "../../src/client/noise.ts";
import { FIN, frame, OP } from "../support/frames.ts";
import { closedBy, TunnelClient } from "../support/tunnel_client.ts";
import { House, OFFER, PrivateTunnel } from "../support/tunnel_house.ts";
import { NONE } from "../support/handshake.ts";

House.test("what is no WebSocket frame proves nothing, and ends a relay", async (house) => {
  const broken = frame(FIN | 3, "x");
  {
    using client = await house.ask();
    await client.send(broken);
    await client.ended();
  }
  {
    using client = await house.ask();
    const handshake = house.handshake(portPrologue(house.guest.port));
    await client.say(handshake.first(OFFER));
    await client.message();
    await client.send(broken);
    await client.ended();
  }
  strictEqual(house.guest.dials, 0);
  using tunnel = await house.tunnel();
  const { client, connection } = tunnel;
  await tunnel.hello();
  await client.send(broken);
  await client.ended();
  strictEqual(await connection.ending(), "reset");
});

House.test(
  "what does not prove the client is refused with one and the same sentence, and nothing is dialled",
  async (house, test) => {
    const { identity, guest } = house;
    const first = (prologue: Uint8Array<ArrayBuffer> = NONE): Uint8Array<ArrayBuffer> =>
      house.handshake(prologue).first(OFFER);
    const stranger = new Uint8Array(32).fill(5);
    const flipped = first();
    flipped[40] = (flipped[40] ?? 0) ^ 1;
    const attempts: Record<string, Uint8Array[]> = {
      "a stranger's key": [frame(FIN | OP.binary, house.handshake(NONE, stranger).first(OFFER))],
      "a truncated message": [frame(FIN | OP.binary, first().subarray(0, 47))],
      "a message that is too long": [frame(FIN | OP.binary, new Uint8Array([...first(), 0]))],
      "an empty message": [frame(FIN | OP.binary)],
      "a message beyond what Noise allows": [frame(FIN | OP.binary, new Uint8Array(65536))],
      "a flipped bit": [frame(FIN | OP.binary, flipped)],
      "a text message": [frame(FIN | OP.text, "in words")],
      "another port's prologue": [frame(FIN | OP.binary, first(portPrologue(guest.port ^ 1)))],
      "a payload of two bytes": [
        frame(FIN | OP.binary, house.handshake().first(new Uint8Array([1, 1]))),
      ],
      "plain bytes": [frame(FIN | OP.binary, "GET / HTTP/1.1\r\n\r\n")],
    };
    const reasons = new Set<string>();
    for (const [name, frames] of Object.entries(attempts)) {
      await test.step(name, async () => {
        using client = await house.ask();
        await client.send(...frames);
        const { code, reason } = await client.closed();
        strictEqual(code, 4403);
        reasons.add(reason);
      });
    }
    const confirmations: Record<string, (session: Session) => Uint8Array> = {
      "another confirmation": (session) =>
        frame(FIN | OP.binary, session.seal("microvms-tunnel-reads")),
      "an empty confirmation": (session) => frame(FIN | OP.binary, session.seal(NONE)),
      "a confirmation in plain": () => frame(FIN | OP.binary, READY),
      "a confirmation as text": () => frame(FIN | OP.text, READY),
    };
    for (const [name, confirm] of Object.entries(confirmations)) {
      await test.step(name, async () => {
        using client = await house.ask();
        const handshake = house.handshake(portPrologue(guest.port));
        await client.say(handshake.first(OFFER));
        const session = handshake.finish(await client.message());
        await client.send(confirm(session));
        const { code, reason } = await client.closed();
        strictEqual(code, 4403);
        reasons.add(reason);
      });
    }
    strictEqual(reasons.size, 1);
    strictEqual(guest.dials, 0);
    // Nobody but the accepted ones ever came: the first to come is this one.
    using tunnel = await house.tunnel();
    await tunnel.hello();
    strictEqual(guest.dials, 1);
    await house.daemon.logWritten();
    for (const line of house.daemon.log.toString().split("\n")) {
      ok(
        !line.includes(identity.payload().identity_seed) && !line.includes(identity.secret.toHex()),
        line,
      );
    }
  },
);

House.test("a replayed handshake proves nothing under either prologue: it is refused, and nothing is dialled", async (house) => {
  for (const prologue of [NONE, portPrologue(house.guest.port)]) {
    const handshake = house.handshake(prologue);
    const recorded = handshake.first(OFFER);
    const dials = house.guest.dials;
    {
      const client = await house.ask();
      await client.say(recorded);
      const session = handshake.finish(await client.message());
      if (prologue.length > 0) await client.say(session.seal(READY));
      using tunnel = new PrivateTunnel(client, session, await house.guest.accept());
      await tunnel.hello();
    }
    for (let turn = 0; turn < 2; turn++) {
      using client = await house.ask();
      await client.say(recorded);
      strictEqual((await client.closed()).code, 4403);
    }
    strictEqual(house.guest.dials, dials + 1);
  }
});

Deno.test("a handshake replayed to another daemon with the same seed gets a dial, and not a byte across", async () => {
  // A new daemon remembers nothing. The empty prologue has nothing fresh in it from the daemon's side, and a guest
  // may be the first to speak: what is left to the replayer is that there is one, and how long its messages are.
  await using first = await House.open();
  await using second = await Daemon.start();
  await second.bootstrap("second", { identity: first.identity });
  const handshake = first.handshake();
  const recorded = handshake.first(OFFER);
  using client = await first.ask();
  await client.say(recorded);
  const recordedSession = handshake.finish(await client.message());
  using _connection = await first.guest.accept();
  const sealed = recordedSession.seal("transfer 10");
  using replayer = await TunnelClient.open(second, `?port=${first.guest.port}&identity=1`);
  await replayer.say(recorded);
  await replayer.message();
  using connection = await first.guest.accept();
  await connection.send("who is there?");
  const heard = await replayer.message();
  throws(() => recordedSession.open(heard));
  await replayer.say(sealed);
  strictEqual((await replayer.closed()).code, 4500);
  strictEqual(await connection.ending(), "reset");
});

House.test("a client that says nothing, or stops half-way, is refused after five seconds", async (house) => {
  using silent = await house.ask();
  using halfway = await house.ask();
  using unconfirmed = await house.ask();
  const begun = performance.now();
  await halfway.send(frame(FIN | OP.binary, house.handshake().first(OFFER)).subarray(0, 20));
  await unconfirmed.say(house.handshake(portPrologue(house.guest.port)).first(OFFER));
  await unconfirmed.message();
  for (const client of [silent, unconfirmed, halfway]) {
    const next = await client.frame();
    ok(next !== null);
    strictEqual(closedBy(next).code, 4403);
    const tookMs = performance.now() - begun;
    ok(tookMs > 4500 && tookMs < 8000, `${tookMs} ms`);
  }
  strictEqual(house.guest.dials, 0);
});
