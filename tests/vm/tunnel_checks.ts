/** Tunnels to a server inside a guest. */

import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { eventually, within } from "../support/await_event.ts";
import { Pair } from "../support/pair.ts";
import { close, closeCode, echoed, opened } from "../support/tunnel_socket.ts";
import type { Guest } from "./guest.ts";

/** Where the guest's own server listens. */
const ECHO_PORT = 7777;

/** Opens a tunnel to a port of the guest. */
export async function openTunnel(guest: Guest, query: string): Promise<WebSocket> {
  const headers = { authorization: `Bearer ${guest.token}` };
  return await opened(
    new WebSocket(`ws://127.0.0.1:${guest.port}/v1/tcp?${query}`, { headers }),
  );
}

/** Starts a server in the guest that gives each connection back what it sends. */
export async function startEcho(guest: Guest): Promise<string> {
  const id = await guest.start(`exec nc -ll -p ${ECHO_PORT} -e cat`);
  const listening = `netstat -ltn | grep -q ':${ECHO_PORT} ' && echo yes || echo no`;
  await eventually("the guest's server", async () => await guest.sh(listening) === "yes");
  return id;
}

async function message(socket: WebSocket): Promise<Uint8Array<ArrayBuffer>> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
  socket.onmessage = ({ data }) => resolve(new Uint8Array(data as ArrayBuffer));
  socket.onclose = ({ code }) => reject(new Error(`Cannot go on: closed with ${code}`));
  return await within("a message of the tunnel", promise);
}

async function checkIdentity(guest: Guest, pair: Pair): Promise<void> {
  const query = `port=${ECHO_PORT}&identity=1`;
  const socket = await openTunnel(guest, query);
  const handshake = pair.handshake();
  socket.send(handshake.first());
  const session = handshake.finish(await message(socket));
  const secret = new TextEncoder().encode("for the guest alone");
  socket.send(session.seal(secret));
  deepStrictEqual(session.open(await message(socket)), secret);
  await close(socket);

  const stranger = await openTunnel(guest, query);
  const refused = closeCode(stranger);
  stranger.send(pair.handshake(undefined, new Pair().secret).first());
  strictEqual(await refused, 4403);
}

/** An echo through a tunnel, with and without identity, and the ways in which one is refused. */
export async function checkTunnel(guest: Guest, pair: Pair): Promise<void> {
  const server = await startEcho(guest);
  const socket = await openTunnel(guest, `port=${ECHO_PORT}`);
  const text = "through the tunnel ".repeat(5000);
  strictEqual(await echoed(socket, text), text);
  await close(socket);
  await checkIdentity(guest, pair);
  strictEqual(await closeCode(await openTunnel(guest, "port=1")), 4502);
  await guest.kill(server);
  await guest.ack(server);
}

/** A guest that was given no identity refuses to pretend. */
export async function checkNoIdentity(guest: Guest): Promise<void> {
  strictEqual(await closeCode(await openTunnel(guest, "port=1&identity=true")), 4401);
}
