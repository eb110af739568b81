import { ok, strictEqual } from "node:assert/strict";
import { bufferShares, pourBody } from "../../src/http/upload_body.ts";

const KIB = 1024;

/** A body that is at hand, as Deno's is when a client sends faster than it is read. */
function atHand(bytes: number, chunked: boolean): Request {
  let left = bytes;
  const body = new ReadableStream({
    type: "bytes",
    pull(controller): void {
      const view = controller.byobRequest?.view;
      const count = Math.min(left, view?.byteLength ?? 0);
      left -= count;
      if (count === 0) controller.close();
      controller.byobRequest?.respond(count);
    },
  });
  const headers: Record<string, string> = chunked
    ? { "transfer-encoding": "chunked" }
    : { "content-length": String(bytes) };
  return new Request("http://guest/", { method: "PUT", body, headers });
}

/** How many turns of the event loop others have while a body of so many bytes is taken. */
async function turnsBeside(bytes: number, chunked = false): Promise<number> {
  let turns = 0;
  let taken = 0;
  let ended = false;
  const others = (): void => {
    turns++;
    if (!ended) setImmediate(others);
  };
  setImmediate(others);
  const sink = {
    write: (chunk: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> => {
      taken += chunk.length;
      return Promise.resolve(chunk);
    },
  };
  const stopped = new AbortController().signal;
  await pourBody(atHand(bytes, chunked), {
    sink,
    maxBytes: bytes,
    stopped,
    shares: bufferShares(),
    idleMs: 60_000,
  });
  ended = true;
  strictEqual(taken, bytes);
  return turns;
}

Deno.test("others have two turns of the event loop for each 128 KiB of a body", async () => {
  const turns = await turnsBeside(16 * 128 * KIB);
  ok(turns >= 30, `${turns} turns beside sixteen times as much`);
});

// What a reading takes from the socket beyond what it gives is used up only by as many readings in a row.
Deno.test("others have eight turns of the event loop for each 640 KiB of a chunked body", async () => {
  const turns = await turnsBeside(4 * 640 * KIB, true);
  ok(turns >= 30 && turns <= 40, `${turns} turns beside four times as much`);
});

Deno.test("a body of less is taken at once", async () => {
  strictEqual(await turnsBeside(100 * KIB), 0);
});
