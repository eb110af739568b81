/** A sample of what `./build.sh faults` does at length. */

import { deepStrictEqual } from "node:assert/strict";
import { Campaign } from "../faults/campaign.ts";
import { type Injection, random } from "../faults/injections.ts";
import { PARTS } from "../faults/scenario.ts";
import { run } from "../support/tmpfs.ts";

/** Always the same sample: another one is what the command is for. */
const SEED = 20;
const SAMPLE = 40;
/** What was found by the command and mended. */
const MENDED: readonly Injection[] = [
  { part: "command", thread: "guestd-supervis", call: "read", errno: "EIO", nth: 3 },
];

Deno.test({
  name:
    "whichever system call fails, the daemon lives, says what it could not do, and leaves nothing behind",
  ignore: Deno.uid() !== 0 || !run("strace", "--version"),
  async fn(): Promise<void> {
    const draw = random(SEED);
    await using campaign = new Campaign(draw);
    const parts = Object.keys(PARTS) as (keyof typeof PARTS)[];
    const plan = await campaign.plan(parts.filter((part) => part !== "spool"));
    const shuffled = plan.map((one) => [draw(), one] as const).sort(([a], [b]) => a - b);
    const results = [];
    for (const injection of [...MENDED, ...shuffled.map(([, one]) => one)]) {
      const result = await campaign.inject(injection);
      if (result.verdict !== "missed") results.push(result);
      if (results.length === SAMPLE) break;
    }
    deepStrictEqual(results.filter(({ verdict }) => !["unharmed", "told"].includes(verdict)), []);
    deepStrictEqual(results.length, SAMPLE);
  },
});
