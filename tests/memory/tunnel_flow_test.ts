import { ok, strictEqual } from "node:assert/strict";
import { eventually, stalled } from "../support/await_event.ts";
import { FIN, frame, OP } from "../support/frames.ts";
import { withTunnel } from "../support/with_tunnel.ts";
import { TunnelClient } from "../support/tunnel_client.ts";
import { Guest } from "../support/tunnel_guest.ts";
import { House } from "../support/tunnel_house.ts";
import { withDaemonAsRoot } from "../support/with_daemon.ts";

const MIB = 1 << 20;
/** Many times what is on its way at a time. */
const TOTAL = 96 * MIB;

/** Counts what a loop has done. */
class Progress {
  done = 0;

  async stalled(what: string): Promise<number> {
    return await stalled(what, () => this.done, 60_000);
  }
}

withTunnel.test("a flood to a stalled guest stalls the client, costs no memory, and loses nothing", async ({ client, connection, daemon }) => {
  // Frames of a megabyte, their masks included.
  const message = frame(FIN | OP.binary, new Uint8Array(MIB));
  const sent = new Progress();
  const before = daemon.rss();
  const flooding = (async (): Promise<void> => {
    for (let round = 0; round < TOTAL / MIB; round++) {
      for (let rest = message; rest.length > 0;) {
        const count = await client.socket.write(rest);
        sent.done += count;
        rest = rest.subarray(count);
      }
    }
  })();
  const got = await sent.stalled("the client stalled");
  ok(got < 64 * MIB, `the client got rid of ${got} bytes`);
  ok(daemon.rss() - before < 16 * MIB, `${before} bytes of memory became ${daemon.rss()}`);
  let heard = 0;
  const buffer = new Uint8Array(MIB);
  while (heard < TOTAL) {
    const count = await connection.socket.read(buffer);
    if (count === null) throw new Error(`Cannot drain: the end came after ${heard}`);
    heard += count;
  }
  await flooding;
  strictEqual(heard, TOTAL);
  ok(daemon.rss() - before < 24 * MIB, `${before} bytes of memory became ${daemon.rss()}`);
  await connection.send("all of it");
  strictEqual(await client.text(9), "all of it");
});

withTunnel.test("a flood to a stalled client stalls the guest, costs no memory, and loses nothing", async ({ client, connection, daemon }) => {
  const sent = new Progress();
  const before = daemon.rss();
  const flooding = (async (): Promise<void> => {
    const block = new Uint8Array(MIB);
    for (let at = 0; at < TOTAL;) {
      const count = await connection.socket.write(block.subarray(0, Math.min(MIB, TOTAL - at)));
      sent.done += count;
      at += count;
    }
  })();
  const got = await sent.stalled("the guest stalled");
  ok(got < 64 * MIB, `the guest got rid of ${got} bytes`);
  ok(daemon.rss() - before < 16 * MIB, `${before} bytes of memory became ${daemon.rss()}`);
  // The other direction is not held up by it.
  await client.say("still here");
  strictEqual(await connection.text(10), "still here");
  let heard = 0;
  while (heard < TOTAL) heard += (await client.message()).length;
  await flooding;
  strictEqual(heard, TOTAL);
});

withDaemonAsRoot.test("two hundred tunnels at once, each with its own bytes", async ({ daemon }) => {
  using guest = new Guest();
  guest.echo();
  const descriptors = daemon.fdCount();
  const before = daemon.rss();
  const numbers = Array.from({ length: 200 }, (_, number) => number);
  const clients = await Promise.all(
    numbers.map(() => TunnelClient.open(daemon, `?port=${guest.port}`)),
  );
  const talk = async (client: TunnelClient, number: number): Promise<void> => {
    for (let turn = 0; turn < 5; turn++) {
      const bytes = new Uint8Array(20_000).fill(number);
      await client.say(bytes);
      const heard = await client.bytes(bytes.length);
      ok(heard.every((byte) => byte === number), `tunnel ${number}`);
    }
  };
  await Promise.all(clients.map(talk));
  ok(daemon.rss() - before < 64 * MIB, `${before} bytes of memory became ${daemon.rss()}`);
  clients.forEach((client) => client[Symbol.dispose]());
  await eventually("as few descriptors as before", () => daemon.fdCount() <= descriptors + 4);
});

House.test("a tunnel that is stalled both ways holds four megabytes at most, with an identity too", async (house) => {
  const { daemon, guest } = house;
  const tunnels = 8;
  const moved = new Progress();
  const block = new Uint8Array(60_000);
  using ends = new DisposableStack();
  const floods: Promise<void>[] = [];
  const flood = async (send: () => Promise<void>): Promise<void> => {
    try {
      for (;; moved.done++) await send();
    } catch {
      // Cut off, at the end of the test.
    }
  };
  const before = daemon.rss();
  for (let number = 0; number < tunnels; number++) {
    const isPrivate = number % 2 === 1;
    const { client, session, connection } = isPrivate ? await house.tunnel() : {
      client: await TunnelClient.open(daemon, `?port=${guest.port}`),
      session: undefined,
      connection: await guest.accept(),
    };
    ends.use(client);
    ends.use(connection);
    floods.push(flood(() => client.say(session?.seal(block) ?? block)));
    floods.push(flood(() => connection.send(block)));
  }
  await moved.stalled("all of them stalled");
  const grown = daemon.rss() - before;
  ends.dispose();
  await Promise.all(floods);
  ok(grown < tunnels * 4 * MIB, `${tunnels} tunnels took ${grown} bytes`);
});

withTunnel.test("pings of a client that reads no answers make it wait, and pile up nowhere", async ({ client, connection, daemon }) => {
  const before = daemon.rss();
  const pings = frame(FIN | OP.ping, "p".repeat(125));
  const batch = new Uint8Array(pings.length * 1000);
  for (let at = 0; at < batch.length; at += pings.length) batch.set(pings, at);
  const sent = new Progress();
  const rounds = 200;
  const flooding = (async (): Promise<void> => {
    for (; sent.done < rounds; sent.done++) await client.send(batch);
    await client.say("after them");
  })();
  ok(await sent.stalled("the client stalled") < rounds);
  ok(daemon.rss() - before < 8 * MIB, `${before} bytes of memory became ${daemon.rss()}`);
  for (let pong = 0; pong < 1000 * rounds; pong++) {
    strictEqual((await client.frame())?.opcode, OP.pong);
  }
  await flooding;
  strictEqual(await connection.text(10), "after them");
});
