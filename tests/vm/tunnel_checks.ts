/**
 * Tunnels to a server inside a guest.
 *
 * @module
 */

import { strictEqual } from "node:assert/strict";
import { eventually, within } from "../support/await_event.ts";
import type { Guest } from "./guest.ts";

/** Where the guest's own server listens. */
const ECHO_PORT = 7777;

/** A probe: whether the tunnel route is served. */
export function tunnelServed(guest: Guest): () => Promise<boolean> {
  return async () => {
    const answer = await guest.fetch("/v1/tcp?port=1");
    await answer.body?.cancel();
    return answer.status !== 501;
  };
}

/** Opens a tunnel to a port of the guest. */
export async function openTunnel(guest: Guest, query: string): Promise<WebSocket> {
  const headers = { authorization: `Bearer ${guest.token}` };
  const socket = new WebSocket(`ws://127.0.0.1:${guest.port}/v1/tcp?${query}`, { headers });
  socket.binaryType = "arraybuffer";
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.onopen = () => resolve();
  socket.onerror = () => reject(new Error(`Cannot open a tunnel: ${query}`));
  await within("the tunnel open", promise);
  return socket;
}

/** Starts a server in the guest that gives each connection back what it sends. */
export async function startEcho(guest: Guest): Promise<string> {
  const id = await guest.start(`exec nc -lk -p ${ECHO_PORT} -e cat`);
  const listening = `netstat -ltn | grep -q ':${ECHO_PORT} ' && echo yes || echo no`;
  await eventually("the guest's server", async () => await guest.sh(listening) === "yes");
  return id;
}

/** Sends bytes and waits until as many have come back. */
export async function echoed(socket: WebSocket, message: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const decoder = new TextDecoder();
  let seen = "";
  socket.onmessage = ({ data }) => {
    seen += decoder.decode(data as ArrayBuffer, { stream: true });
    if (seen.length >= message.length) resolve(seen);
  };
  socket.onclose = ({ code, reason }) => {
    reject(new Error(`Cannot go on: the tunnel was closed with ${code} ${reason}`));
  };
  socket.send(new TextEncoder().encode(message));
  return await within("the echo", promise);
}

/** The code with which the daemon closes. */
async function closeCode(socket: WebSocket): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  socket.onclose = ({ code }) => resolve(code);
  return await within("the tunnel's end", promise);
}

/** An echo through a tunnel, and the ways in which one is refused. */
export async function checkTunnel(guest: Guest): Promise<void> {
  const server = await startEcho(guest);
  const socket = await openTunnel(guest, `port=${ECHO_PORT}`);
  const message = "through the tunnel ".repeat(5000);
  strictEqual(await echoed(socket, message), message);
  const closed = closeCode(socket);
  socket.close(1000);
  await closed;
  strictEqual(await closeCode(await openTunnel(guest, "port=1")), 4502);
  strictEqual(await closeCode(await openTunnel(guest, `port=${ECHO_PORT}&identity=1`)), 4401);
  await guest.kill(server);
  await guest.ack(server);
}
