import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { ClientSocket } from "../../src/tunnel/client_socket.ts";
import type { ReadLoop } from "../../src/tunnel/pause.ts";
import { Turns } from "../../src/tunnel/turns.ts";

/** Turns of the event loop, as many as somebody waits who lets others go first. */
async function turn(count = 3): Promise<void> {
  for (; count > 0; count--) await new Promise((resolve) => setImmediate(resolve));
}

Deno.test("two tunnels go on in every third turn of the event loop", async () => {
  const turns = new Turns();
  const gone: number[] = [];
  for (let number = 0; number < 5; number++) turns.await(() => gone.push(number));
  await Promise.resolve();
  deepStrictEqual(gone, []);
  let before = 0;
  for (const after of [2, 4, 5, 5]) {
    await turn(2);
    strictEqual(gone.length, before);
    await turn(1);
    strictEqual(gone.length, after);
    before = after;
  }
  deepStrictEqual(gone, [0, 1, 2, 3, 4]);
});

/** A client's socket over nothing, with what was done to its loop. */
function client(): { socket: WebSocket; sent: ClientSocket; did: string[] } {
  const did: string[] = [];
  const loop: ReadLoop = {
    pause: () => did.push("pause"),
    resume: () => did.push("resume"),
    readOn: () => {},
    letGo: () => {},
  };
  const socket = { readyState: WebSocket.OPEN, bufferedAmount: 0 } as WebSocket;
  const events = { opened: () => {}, message: () => did.push("message"), gone: () => {} };
  return { socket, sent: new ClientSocket(socket, loop, new Turns(), events), did };
}

function say(socket: WebSocket, bytes = 1): void {
  socket.onmessage?.(new MessageEvent("message", { data: new ArrayBuffer(bytes) }));
}

Deno.test("a client that waited goes on when others had a turn, however often it is told", async () => {
  const { socket, sent, did } = client();
  say(socket);
  sent.pause();
  sent.pause();
  sent.resume();
  sent.resume();
  await Promise.resolve();
  deepStrictEqual(did, ["message", "pause"]);
  await turn();
  deepStrictEqual(did, ["message", "pause", "resume"]);
});

Deno.test("of the messages that Deno has at hand 64 are taken in a turn", async () => {
  const { socket, did } = client();
  for (let number = 0; number < 64; number++) say(socket);
  deepStrictEqual(did.splice(0), [...Array.from({ length: 64 }, () => "message"), "pause"]);
  await turn();
  deepStrictEqual(did.splice(0), ["resume"]);
  for (let number = 0; number < 63; number++) say(socket);
  strictEqual(did.includes("pause"), false);
});

Deno.test("of the bytes that Deno has at hand 64 KiB are taken in a turn", async () => {
  const { socket, did } = client();
  say(socket, 65_535);
  deepStrictEqual(did.splice(0), ["message"]);
  say(socket);
  deepStrictEqual(did.splice(0), ["message", "pause"]);
  await turn();
  deepStrictEqual(did.splice(0), ["resume"]);
  say(socket, 65_535);
  strictEqual(did.includes("pause"), false);
});
