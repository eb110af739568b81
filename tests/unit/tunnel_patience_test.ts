import { ok, strictEqual } from "node:assert/strict";
import type { ConnectionFacts } from "../../src/native/connections.ts";
import { Patience } from "../../src/tunnel/patience.ts";

const FACTS: ConnectionFacts = {
  ended: false,
  reset: false,
  cameMs: 0,
  unacknowledged: 0,
  acknowledged: 0,
};

/** Waits for an end whose facts are given anew at every look; tells how it was over, after how many looks. */
async function waited(
  facts: (look: number) => Partial<ConnectionFacts> | undefined,
  times: { readonly graceMs: number; readonly stallMs: number },
  unwritten: () => number = () => 0,
): Promise<{ taken: boolean; looks: number; tookMs: number }> {
  const begun = performance.now();
  let looks = 0;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  using _patience = new Patience({
    facts: () => {
      const known = facts(looks++);
      return known === undefined ? undefined : { ...FACTS, ...known };
    },
    unwritten,
    ...times,
    over: resolve,
  });
  return { taken: await promise, looks, tookMs: performance.now() - begun };
}

Deno.test("the grace begins when everything is acknowledged", async () => {
  const facts = (look: number): Partial<ConnectionFacts> => ({ unacknowledged: look < 3 ? 10 : 0 });
  const { taken, tookMs } = await waited(facts, { graceMs: 100, stallMs: 60_000 });
  ok(taken);
  // Three looks apart from each other, and the grace.
  ok(tookMs >= 100 + 3 * 250 - 10, `${tookMs} ms`);
});

Deno.test("who takes anything is waited for, and who takes nothing is given up", async () => {
  const slow = (look: number): Partial<ConnectionFacts> => ({
    unacknowledged: look < 6 ? 10 : 0,
    acknowledged: look,
  });
  ok((await waited(slow, { graceMs: 0, stallMs: 600 })).taken);
  const stuck = (): Partial<ConnectionFacts> => ({ unacknowledged: 10, acknowledged: 5 });
  const { taken, tookMs } = await waited(stuck, { graceMs: 0, stallMs: 600 });
  strictEqual(taken, false);
  ok(tookMs >= 600, `${tookMs} ms`);
});

Deno.test("where the kernel's facts are not known, what it was not given counts", async () => {
  let left = 3;
  const { taken, looks } = await waited(
    () => undefined,
    { graceMs: 0, stallMs: 600 },
    () => left === 0 ? 0 : left--,
  );
  ok(taken);
  strictEqual(looks, 4);
  strictEqual((await waited(() => undefined, { graceMs: 0, stallMs: 300 }, () => 5)).taken, false);
});
