import { ok, rejects, strictEqual, throws } from "node:assert/strict";
import { Daemon } from "../support/daemon.ts";
import { bootstrapPair, type Pair, portPrologue, READY, type Session } from "../support/noise.ts";
import { FIN, frame, OP } from "../support/frames.ts";
import { closedBy, TunnelClient } from "../support/tunnel_client.ts";
import { Guest, type GuestConnection } from "../support/tunnel_guest.ts";

const OFFER = new Uint8Array([1]);
const NONE = new Uint8Array(0);
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** A daemon with an identity, its caller's keys, and a guest. */
class House implements AsyncDisposable {
  readonly daemon: Daemon;
  readonly pair: Pair;
  readonly guest: Guest = new Guest();

  private constructor(daemon: Daemon, pair: Pair) {
    this.daemon = daemon;
    this.pair = pair;
  }

  static async open(): Promise<House> {
    const daemon = await Daemon.start();
    return new House(daemon, await bootstrapPair(daemon));
  }

  /** An upgraded tunnel whose handshake has not begun. */
  ask(behind: Uint8Array = NONE): Promise<TunnelClient> {
    return TunnelClient.open(this.daemon, `?port=${this.guest.port}&identity=1`, behind);
  }

  /** A tunnel behind its handshake. */
  async tunnel(payload: Uint8Array = OFFER, bound = false): Promise<[TunnelClient, Session]> {
    const client = await this.ask();
    const handshake = this.pair.handshake(bound ? portPrologue(this.guest.port) : NONE);
    await client.say(handshake.first(payload));
    const session = handshake.finish(await client.message());
    if (bound) await client.say(session.seal(READY));
    return [client, session];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.guest[Symbol.dispose]();
    await this.daemon[Symbol.asyncDispose]();
  }
}

async function hello(
  client: TunnelClient,
  session: Session,
  connection: GuestConnection,
): Promise<void> {
  await client.say(session.seal("hello"));
  strictEqual(await connection.text(5), "hello");
  await connection.send("to you");
  strictEqual(text(session.open(await client.message())), "to you");
}

Deno.test("a caller that proves itself is relayed, under either prologue, with or without a payload", async () => {
  await using house = await House.open();
  for (const bound of [false, true]) {
    for (const payload of [NONE, OFFER, new Uint8Array([0]), new Uint8Array([0xfe])]) {
      const [client, session] = await house.tunnel(payload, bound);
      using _client = client;
      strictEqual(session.payload.toHex(), payload.length === 0 ? "" : "01");
      using connection = await house.guest.accept();
      await hello(client, session, connection);
    }
  }
});

Deno.test("chunks are of 32768 bytes at most, and up to 65519 are taken", async () => {
  await using house = await House.open();
  const [client, session] = await house.tunnel();
  using _client = client;
  using connection = await house.guest.accept();
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

Deno.test("a message in fragments is one message", async () => {
  await using house = await House.open();
  const [client, session] = await house.tunnel();
  using _client = client;
  using connection = await house.guest.accept();
  const sealed = session.seal("in three parts");
  await client.send(
    frame(OP.binary, sealed.subarray(0, 3)),
    frame(FIN | OP.ping, "x"),
    frame(OP.continuation, sealed.subarray(3, 20)),
    frame(FIN | OP.continuation, sealed.subarray(20)),
  );
  strictEqual(await connection.text(14), "in three parts");
});

Deno.test("the confirmation and what follows it may come in one piece", async () => {
  await using house = await House.open();
  const client = await house.ask();
  using _client = client;
  const handshake = house.pair.handshake(portPrologue(house.guest.port));
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

Deno.test("both ends say when they are done, and the guest sees the caller's end as one", async () => {
  await using house = await House.open();
  {
    const [client, session] = await house.tunnel();
    using _client = client;
    using connection = await house.guest.accept();
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
    const [client, session] = await house.tunnel(NONE);
    using _client = client;
    using connection = await house.guest.accept();
    // Without an offer an empty message means nothing, and none is sent.
    await client.say(session.seal(NONE));
    await client.say(session.seal("still there"));
    strictEqual(await connection.text(11), "still there");
    connection.socket.close();
    strictEqual((await client.closed()).code, 1000);
  }
});

Deno.test("a caller that leaves without its agreed end is cut short, and its guest reset", async (test) => {
  await using house = await House.open();
  const leave: Record<string, (client: TunnelClient) => Promise<unknown>> = {
    "with a close frame": (client) => client.send(frame(FIN | OP.close, new Uint8Array([3, 232]))),
    "without a word": (client) => Promise.resolve(client.socket.close()),
  };
  for (const [how, act] of Object.entries(leave)) {
    for (const [payload, ending] of [[OFFER, "reset"], [NONE, "end"]] as const) {
      await test.step(`${how}, ${ending}`, async () => {
        const [client, session] = await house.tunnel(payload);
        using _client = client;
        using connection = await house.guest.accept();
        await client.say(session.seal("half of i"));
        strictEqual(await connection.text(9), "half of i");
        await act(client);
        strictEqual(await connection.ending(), ending);
      });
    }
  }
  await test.step("after its end it may leave as it likes", async () => {
    const [client, session] = await house.tunnel();
    using connection = await house.guest.accept();
    await client.say(session.seal(NONE));
    strictEqual(await connection.ending(), "end");
    client.socket.close();
    await connection.send("into the void");
  });
});

Deno.test("what a caller sent before it answered the guest's end still reaches the guest, which is reset behind it", async () => {
  await using house = await House.open();
  const [client, session] = await house.tunnel();
  using _client = client;
  using connection = await house.guest.accept();
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

Deno.test("what is no WebSocket frame is a bad handshake before the proof, and a broken message after it", async () => {
  await using house = await House.open();
  const unmasked = frame(FIN | OP.binary, "x", { masked: false });
  {
    using client = await house.ask();
    await client.send(unmasked);
    strictEqual((await client.closed()).code, 4403);
  }
  {
    using client = await house.ask();
    const handshake = house.pair.handshake(portPrologue(house.guest.port));
    await client.say(handshake.first(OFFER));
    await client.message();
    await client.send(unmasked);
    strictEqual((await client.closed()).code, 4403);
  }
  strictEqual(house.guest.dials, 0);
  const [client, session] = await house.tunnel();
  using _client = client;
  using connection = await house.guest.accept();
  await hello(client, session, connection);
  await client.send(unmasked);
  strictEqual((await client.closed()).code, 4500);
  strictEqual(await connection.ending(), "reset");
});

Deno.test("what does not prove the caller is refused with one and the same sentence, and nothing is dialled", async (test) => {
  await using house = await House.open();
  const { pair, guest } = house;
  const first = (prologue: Uint8Array<ArrayBuffer> = NONE): Uint8Array<ArrayBuffer> =>
    pair.handshake(prologue).first(OFFER);
  const stranger = new Uint8Array(32).fill(5);
  const flipped = first();
  flipped[40] = (flipped[40] ?? 0) ^ 1;
  const attempts: Record<string, Uint8Array[]> = {
    "a stranger's key": [frame(FIN | OP.binary, pair.handshake(NONE, stranger).first(OFFER))],
    "a truncated message": [frame(FIN | OP.binary, first().subarray(0, 47))],
    "a message that is too long": [frame(FIN | OP.binary, new Uint8Array([...first(), 0]))],
    "an empty message": [frame(FIN | OP.binary)],
    "a message beyond what Noise allows": [frame(FIN | OP.binary, new Uint8Array(65536))],
    "a flipped bit": [frame(FIN | OP.binary, flipped)],
    "a text message": [frame(FIN | OP.text, first())],
    "another port's prologue": [frame(FIN | OP.binary, first(portPrologue(guest.port ^ 1)))],
    "a payload of two bytes": [
      frame(FIN | OP.binary, pair.handshake().first(new Uint8Array([1, 1]))),
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
    "a confirmation as text": (session) => frame(FIN | OP.text, session.seal(READY)),
  };
  for (const [name, confirm] of Object.entries(confirmations)) {
    await test.step(name, async () => {
      using client = await house.ask();
      const handshake = pair.handshake(portPrologue(guest.port));
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
  const [client, session] = await house.tunnel();
  using _client = client;
  using connection = await guest.accept();
  await hello(client, session, connection);
  strictEqual(guest.dials, 1);
  for (const line of house.daemon.log.toString().split("\n")) {
    ok(!line.includes(pair.seed) && !line.includes(pair.secret.toHex()), line);
  }
});

Deno.test("a replayed handshake proves nothing under either prologue: it is refused, and nothing is dialled", async () => {
  await using house = await House.open();
  for (const prologue of [NONE, portPrologue(house.guest.port)]) {
    const handshake = house.pair.handshake(prologue);
    const recorded = handshake.first(OFFER);
    const dials = house.guest.dials;
    {
      using client = await house.ask();
      await client.say(recorded);
      const session = handshake.finish(await client.message());
      if (prologue.length > 0) await client.say(session.seal(READY));
      using connection = await house.guest.accept();
      await hello(client, session, connection);
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
  const payload = JSON.stringify({ agent_token: "second", ...first.pair.payload });
  await (await second.hook("run", { runHookPayload: payload })).body?.cancel();
  second.token = "second";
  const handshake = first.pair.handshake();
  const recorded = handshake.first(OFFER);
  const client = await first.ask();
  using _client = client;
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

Deno.test("a caller that says nothing, or stops half-way, is refused after five seconds", async () => {
  await using house = await House.open();
  const silent = await house.ask();
  const halfway = await house.ask();
  const unconfirmed = await house.ask();
  using _silent = silent;
  using _halfway = halfway;
  using _unconfirmed = unconfirmed;
  const begun = performance.now();
  await halfway.send(frame(FIN | OP.binary, house.pair.handshake().first(OFFER)).subarray(0, 20));
  await unconfirmed.say(house.pair.handshake(portPrologue(house.guest.port)).first(OFFER));
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

Deno.test("a message that is not the caller's ends the relay and resets the guest", async (test) => {
  await using house = await House.open();
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
    "text": (session) => frame(FIN | OP.text, session.seal("as text")),
    "a frame beyond what Noise allows": () => frame(FIN | OP.binary, new Uint8Array(65536)),
    "a message after the end of stream": (session) =>
      new Uint8Array([
        ...frame(FIN | OP.binary, session.seal(NONE)),
        ...frame(FIN | OP.binary, session.seal("too late")),
      ]),
  };
  for (const [name, bytes] of Object.entries(broken)) {
    await test.step(name, async () => {
      const [client, session] = await house.tunnel();
      using _client = client;
      using connection = await house.guest.accept();
      await hello(client, session, connection);
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
});

Deno.test("the keys of the first run hook stay, whatever a replay brings", async () => {
  await using house = await House.open();
  const { daemon } = house;
  const payload = JSON.stringify({
    agent_token: daemon.token,
    identity_seed: new Uint8Array(32).fill(1).toBase64(),
    identity_host_public_key: new Uint8Array(32).fill(9).toBase64(),
  });
  const replayed = await daemon.hook("run", { runHookPayload: payload });
  await replayed.body?.cancel();
  strictEqual(replayed.status, 200);
  const [client, session] = await house.tunnel();
  using _client = client;
  using connection = await house.guest.accept();
  await hello(client, session, connection);
});

Deno.test("without identity=1 a VM that has one still relays in plain", async () => {
  await using house = await House.open();
  using client = await TunnelClient.open(house.daemon, `?port=${house.guest.port}`);
  using connection = await house.guest.accept();
  await client.say("plain");
  strictEqual(await connection.text(5), "plain");
});
