import { strictEqual } from "node:assert/strict";
import { closing, FIN, frame, OP } from "../support/frames.ts";
import { sharedTunnel } from "../support/with_tunnel.ts";
import { TunnelClient } from "../support/tunnel_client.ts";
import { Guest } from "../support/tunnel_guest.ts";
import { withDaemon } from "../support/with_daemon.ts";

const BINARY = FIN | OP.binary;

/** What is no WebSocket frame of a client, by what is wrong with it. */
const BROKEN: Readonly<Record<string, Uint8Array>> = {
  "reserved bit 1": frame(BINARY | 0x40, "x"),
  "reserved bit 2": frame(BINARY | 0x20, "x"),
  "reserved bit 3": frame(BINARY | 0x10, "x"),
  "reserved opcode 3": frame(FIN | 3, "x"),
  "reserved opcode 7": frame(FIN | 7, "x"),
  "reserved opcode 11": frame(FIN | 11, "x"),
  "reserved opcode 15": frame(FIN | 15, "x"),
  "a ping of 126 bytes": frame(FIN | OP.ping, new Uint8Array(126)),
  "a fragmented ping": frame(OP.ping, "x"),
  "a continuation of nothing": frame(FIN | OP.continuation, "x"),
  "a message within a message": new Uint8Array([
    ...frame(OP.binary, "x"),
    ...frame(BINARY, "y"),
  ]),
  "a length of 64 MiB": frame(BINARY, "", { length: 64n << 20n }),
  "a length of 2^63": frame(BINARY, "", { length: 2n ** 63n }),
  "a length of 2^64-1": frame(BINARY, "", { length: 2n ** 64n - 1n }),
  "a close of one byte": frame(FIN | OP.close, "x"),
  "a close with code 1005": closing(1005),
  "a close with code 0": closing(0),
  "a close whose reason is no text": frame(FIN | OP.close, new Uint8Array([3, 232, 0xff])),
  "a text that is none": frame(FIN | OP.text, new Uint8Array([0xff, 0xfe])),
  "HTTP": new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
};

/** What Deno takes for a close of which it only dislikes the code: it answers 1002. */
const ANSWERED = ["a close with code 1005", "a close with code 0"];

withDaemon.test("what is no WebSocket frame ends the connection and resets the guest", async ({ daemon, t: test }) => {
  using guest = new Guest();
  for (const [name, bytes] of Object.entries(BROKEN)) {
    await test.step(name, async () => {
      using client = await TunnelClient.open(daemon, `?port=${guest.port}`);
      using connection = await guest.accept();
      await client.say("fine");
      strictEqual(await connection.text(4), "fine");
      await client.send(bytes);
      if (ANSWERED.includes(name)) strictEqual((await client.closed()).code, 1002);
      else await client.ended();
      strictEqual(await connection.ending(), "reset");
    });
  }
});

sharedTunnel.test("a frame whose head comes a byte at a time is one", async ({ client, connection }) => {
  for (const byte of frame(BINARY, new Uint8Array(300).fill(7))) {
    await client.send(new Uint8Array([byte]));
  }
  strictEqual((await connection.bytes(300)).every((byte) => byte === 7), true);
});
