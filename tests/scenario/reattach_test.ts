import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import type { ExecEvent } from "../../src/client/sse.ts";
import { sameText } from "../support/bytes.ts";
import { Daemon } from "../support/daemon.ts";
import { StreamRest } from "../support/sse.ts";
import { sharedDaemon } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;

/** Numbered lines, so that a lost, doubled or swapped byte shows. */
const COUNT = (lines: number): string => `seq 1 ${lines}`;

function counted(lines: number): string {
  return Array.from({ length: lines }, (_, index) => `${index + 1}\n`).join("");
}

/** Follows a command, detaching after each `events` events and attaching again where it was. */
async function inPieces(daemon: Daemon, id: string, events: number): Promise<StreamRest> {
  const seen: ExecEvent[] = [];
  let offset = 0n;
  for (;;) {
    await using stream = await daemon.stream(id, offset);
    for (let taken = 0; taken < events; taken++) {
      const event = await stream.next();
      ok(event !== undefined, "the stream ended without an exit");
      seen.push(event);
      if (event.event === "exit") return new StreamRest(seen);
      offset = event.event === "gap" ? event.to : event.offset + BigInt(event.bytes.length);
    }
  }
}

sharedDaemon.test("output is complete however often a client reattaches, while it is written and afterwards", async ({ daemon }) => {
  const lines = 100_000;
  const id = await daemon.exec(COUNT(lines));
  for (const events of [1, 3, 1000]) {
    const whole = await inPieces(daemon, id, events);
    deepStrictEqual(whole.gaps, []);
    strictEqual(whole.contiguous(), whole.exit.offset);
    sameText(whole.text(), counted(lines));
  }
  sameText((await daemon.guest.poll(id)).stdout ?? "", counted(lines));
});

sharedDaemon.test("a client that stays attached gets everything that a fast writer writes, far beyond the window", async ({ daemon }) => {
  const lines = 2_000_000;
  // It begins once the client is attached: what left the window before would be a gap.
  const id = await daemon.exec(`read go; ${COUNT(lines)}`, { stdin: "piped" });
  const whole = await daemon.follow(id, () => daemon.stdin(id, "go\n"));
  deepStrictEqual(whole.gaps, []);
  strictEqual(whole.contiguous(), whole.exit.offset);
  ok(whole.exit.offset > BigInt(8 * MIB));
  sameText(whole.text(), counted(lines));
  strictEqual(whole.exit.truncated, true);
});

sharedDaemon.test("the window that is replayed is exactly stream_replay_bytes, in one gap and the rest", async ({ daemon }) => {
  // For its first 100 ms everything is kept for a reader that is expected: what follows looks at what is kept behind them.
  const id = await daemon.exec(`sleep 0.2; seq 1 300000; cat`, { stdin: "piped" });
  const total = counted(300_000).length;
  await using last = await daemon.stream(id, total - 1);
  await last.untilOutput("\n");
  for (const offset of [0, 1, total - MIB - 1]) {
    await using stream = await daemon.stream(id, offset);
    const gap = await stream.next();
    // Of 64 KiB of output that came instead, the assertion's diff would take all memory.
    strictEqual(gap?.event, "gap");
    deepStrictEqual(gap, { event: "gap", from: BigInt(offset), to: BigInt(total - MIB) });
    const first = await stream.next();
    strictEqual(first?.event === "output" && first.offset, BigInt(total - MIB));
  }
  await daemon.stdin(id, "", true);
  await using exact = await daemon.stream(id, total - MIB);
  const rest = await exact.rest();
  deepStrictEqual(rest.gaps, []);
  sameText(rest.text(), counted(300_000).slice(total - MIB));
  strictEqual(rest.contiguous(BigInt(total - MIB)), BigInt(total));
});
