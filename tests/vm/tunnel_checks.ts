/** Tunnels to a server inside a guest. */

import { deepStrictEqual, rejects, strictEqual } from "node:assert/strict";
import { Identity } from "../../src/client/identity.ts";
import { eventually, within } from "../support/await_event.ts";
import { echoed } from "../support/tunnel_echo.ts";
import type { Guest } from "./guest.ts";

/** Where the guest's own server listens. */
export const ECHO_PORT = 7777;

/** Starts a server in the guest that gives each connection back what it sends. */
export async function startEcho(guest: Guest): Promise<string> {
  const id = await guest.start(`exec nc -ll -p ${ECHO_PORT} -e cat`);
  const listening = `netstat -ltn | grep -q ':${ECHO_PORT} ' && echo yes || echo no`;
  await eventually("the guest's server", async () => await guest.sh(listening) === "yes");
  return id;
}

/** An echo through a tunnel, with and without identity, and the ways in which one is refused. */
export async function checkTunnel(guest: Guest, identity: Identity): Promise<void> {
  const { client } = guest;
  const server = await startEcho(guest);
  const bytes = new TextEncoder().encode("through the tunnel ".repeat(5000));
  for (const options of [{}, { identity }, { identity, prologue: "none" }] as const) {
    const tunnel = await client.connect(ECHO_PORT, options);
    deepStrictEqual(await echoed(tunnel, bytes), bytes);
    tunnel.close();
    // By a socket the close comes only to who reads.
    await within("the end", tunnel.readable.cancel());
    strictEqual((await tunnel.closed).code, 1000);
  }
  const { secret } = Identity.generate().toJSON();
  const stranger = Identity.from({ ...identity.toJSON(), secret });
  await rejects(client.connect(ECHO_PORT, { identity: stranger }), { code: 4403 });
  const nobody = new Response((await client.connect(1)).readable).text();
  await rejects(within("the close", nobody), { code: 4502 });
  await client.kill(server);
  await client.ack(server);
}

/** A guest that was given no identity refuses to pretend. */
export async function checkNoIdentity({ client }: Guest): Promise<void> {
  await rejects(client.connect(1, { identity: Identity.generate() }), { code: 4401 });
}
