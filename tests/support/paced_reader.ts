/** Readers of a stream whose network carries so much and no more. */

import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { Buffer } from "node:buffer";
import { decodeFrame, type ExecEvent, FrameParser } from "../../src/client/sse.ts";
import { within } from "./await_event.ts";
import { flood } from "./child_scripts.ts";
import { type Daemon, execPath } from "./daemon.ts";
import { request } from "./raw_http.ts";

export const MB = 1_000_000;
/** What a command writes for them, in bytes: more than is kept for a reader that takes nothing. */
export const SIZE = 20 * MB;
/** More of what `yes` writes than an event holds. */
const YES = Buffer.from("y\n".repeat(MB));

/** A client's network, and what happens to it. */
export interface Network {
  /** What it carries, in decoded bytes a second. */
  readonly rate: number;
  /** The connection is lost each time so long after it was made, in milliseconds, and made anew 50 later. */
  readonly cutMs?: number;
  /** Nothing is read for half a second once so many bytes have come. */
  readonly stopAt?: number;
}

export const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));

/** What a client has received. */
export class Received {
  at = 0n;
  lost = 0n;
  total: bigint | undefined;
  /** Its first answer has come: what is written from then on it can follow. */
  readonly attached = Promise.withResolvers<void>();
  /** The longest time from a lost connection to the next one's answer, in milliseconds. */
  awayMs = 0;
  /** How much longer than it wanted it rested at most: it was this machine that read nothing then. */
  lateMs = 0;

  take(event: ExecEvent): void {
    strictEqual(event.event === "gap" ? event.from : event.offset, this.at);
    if (event.event === "exit") this.total = event.offset;
    else if (event.event === "gap") {
      this.lost += event.to - event.from;
      this.at = event.to;
    } else {
      const from = Number(this.at % 2n);
      const written = YES.subarray(from, from + event.bytes.length);
      strictEqual(Buffer.compare(event.bytes, written), 0, `what follows ${this.at}`);
      this.at += BigInt(event.bytes.length);
    }
  }
}

/** Follows a command to its end through a network: reads as fast as that carries, and no faster. */
export async function followThrough(
  daemon: Daemon,
  id: string,
  network: Network,
  received: Received = new Received(),
): Promise<Received> {
  let goneMs = Infinity;
  while (await connected(daemon, id, network, received, goneMs)) {
    goneMs = performance.now();
    await pause(50);
  }
  return received;
}

/** Reads on where it was; true when the connection was lost before the end. */
async function connected(
  daemon: Daemon,
  id: string,
  { rate, cutMs = Infinity, stopAt = Infinity }: Network,
  received: Received,
  goneMs: number,
): Promise<boolean> {
  using connection = await daemon.connect();
  const path = `${execPath(id, "stream")}?offset=${received.at}`;
  await connection.send(request("GET", path, [daemon.authorization]));
  const parser = new FrameParser();
  const head = await connection.head();
  received.attached.resolve();
  let [began, carried] = [performance.now(), 0];
  received.awayMs = Math.max(received.awayMs, began - goneMs);
  const cutAt = began + cutMs;
  for await (const piece of connection.body(head)) {
    for (const frame of parser.push(piece)) {
      const event = decodeFrame(frame);
      if (event !== undefined) received.take(event);
    }
    if (received.total !== undefined) return false;
    // The pace: four characters carry three bytes.
    carried += piece.length * 3 / 4;
    if (carried >= stopAt && carried - piece.length * 3 / 4 < stopAt) {
      await pause(500);
      began += 500;
    }
    const aheadMs = carried / rate * 1000 - (performance.now() - began);
    const rested = performance.now();
    if (aheadMs > 0) await pause(aheadMs);
    received.lateMs = Math.max(received.lateMs, performance.now() - rested - Math.max(0, aheadMs));
    if (performance.now() > cutAt) return true;
  }
  throw new Error(`Cannot follow ${id}: its stream ended at ${received.at}`);
}

/** Begins to write when it is told. */
export async function gated(daemon: Daemon): Promise<string> {
  return await daemon.exec(`head -c1 >/dev/null; ${flood(SIZE)}`, { stdin: "piped" });
}

/**
 * Tells a command to write once its readers have begun, and gives what each of them received. A stream waits 100 ms for a
 * reader that left, and a second for one that takes nothing: where this machine kept one for longer, others are tried.
 */
export async function readers(daemon: Daemon, ...networks: Network[]): Promise<Received[]> {
  for (let tries = 1;; tries++) {
    const id = await gated(daemon);
    const received = networks.map(() => new Received());
    const all = networks.map((network, n) => followThrough(daemon, id, network, received[n]));
    await Promise.all(received.map(({ attached }) => within("the stream", attached.promise)));
    await daemon.stdin(id, "x", true);
    await Promise.all(all);
    if (tries === 5 || received.every((of) => of.awayMs < 90 && of.lateMs < 500)) return received;
  }
}

/** Nothing was lost, and everything came. */
export function whole(received: readonly Received[]): void {
  deepStrictEqual(received.map(({ lost }) => lost), received.map(() => 0n));
  deepStrictEqual(received.map(({ at }) => at), received.map(() => BigInt(SIZE)));
}

/** One reader whose network carries so many MB/s loses nothing, and was as slow as that. */
export async function atRate(daemon: Daemon, rate: number): Promise<void> {
  const began = performance.now();
  whole(await readers(daemon, { rate: rate * MB }));
  const took = performance.now() - began;
  ok(took > 0.8 * SIZE / (rate * 1000), `it was slow: ${took} ms`);
}
