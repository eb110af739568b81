import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { FIN, frame, OP } from "../support/frames.ts";
import { findInMemory } from "../support/memory.ts";
import { type Handshake, portPrologue, READY } from "../../src/client/noise.ts";
import { bootstrapIdentity, handshakeOf } from "../support/handshake.ts";
import { TunnelClient } from "../support/tunnel_client.ts";
import { Guest } from "../support/tunnel_guest.ts";

const OFFER = new Uint8Array([1]);

/** Both halves of a secret: where one was cut in two, one of them is still whole. */
function halves(name: string, secret: Uint8Array): Record<string, Uint8Array> {
  // Not the first and the last byte, which X25519 changes.
  return { [`${name}, front`]: secret.slice(1, 17), [`${name}, back`]: secret.slice(15, 31) };
}

asRoot.test("of an ended tunnel no key is left in the daemon's memory, nor of a refused handshake", async () => {
  await using daemon = await Daemon.start();
  const identity = await bootstrapIdentity(daemon);
  using guest = new Guest();
  // The first tunnel of all starts the thread that pumps them, which has descriptors of its own.
  using _plain = await TunnelClient.open(daemon, `?port=${guest.port}`);
  using _guest = await guest.accept();
  const descriptors = daemon.fdCount();
  const secrets: Record<string, Uint8Array> = {};
  const note = (name: string, handshake: Handshake, keys: readonly Uint8Array[] = []): void => {
    [...handshake.secrets, ...keys].forEach((secret, number) =>
      Object.assign(secrets, halves(`${name} ${number}`, secret))
    );
  };
  for (const bound of [false, true]) {
    using client = await TunnelClient.open(daemon, `?port=${guest.port}&identity=1`);
    const handshake = handshakeOf(identity, bound ? portPrologue(guest.port) : undefined);
    await client.say(handshake.first(OFFER));
    const session = handshake.finish(await client.message());
    if (bound) await client.say(session.seal(READY));
    using connection = await guest.accept();
    await client.say(session.seal(new Uint8Array(50_000).fill(1)));
    await connection.bytes(50_000);
    await connection.send(new Uint8Array(50_000).fill(2));
    for (let heard = 0; heard < 50_000;) heard += session.open(await client.message()).length;
    note(`tunnel ${bound}`, handshake, session.keys);
    if (!bound) {
      const live = findInMemory(daemon.pid, halves("key", session.keys[0]));
      ok(
        live["key, front"]?.length,
        "while the tunnel lives its keys are found, so the test can see",
      );
    }
    await client.say(session.seal(new Uint8Array(0)));
    strictEqual(await connection.ending(), "end");
  }
  {
    using client = await TunnelClient.open(daemon, `?port=${guest.port}&identity=1`);
    const stranger = handshakeOf(identity, undefined, new Uint8Array(32).fill(5));
    await client.send(frame(FIN | OP.binary, stranger.first(OFFER)));
    strictEqual((await client.closed()).code, 4403);
    note("stranger", stranger);
  }
  await eventually("the tunnels' end", () => daemon.fdCount() <= descriptors);
  const found = Object.entries(findInMemory(daemon.pid, secrets));
  deepStrictEqual(found.filter(([, places]) => places.length > 0), []);
});
