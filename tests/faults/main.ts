/** `./build.sh faults`. */
import { Campaign } from "./campaign.ts";
import { type Part, PARTS } from "./parts.ts";

const only = Deno.args.filter((a) => !a.startsWith("-"));
const seed = Number(Deno.env.get("GUESTD_FAULTS_SEED") ?? crypto.getRandomValues(new Uint32Array(1))[0]);
console.log(`seed ${seed}`);
await using campaign = new Campaign(seed);
const parts = (Object.keys(PARTS) as Part[]).filter((part) => only.length === 0 || only.includes(part));
const all = await campaign.plan(parts);
console.log(`${all.length} injections`);
const begun = performance.now();
const counts: Record<string, number> = {};
for (const injection of all) {
  const a = performance.now();
  const { verdict, detail, part, thread, call, errno, nth } = await campaign.inject(injection);
  counts[verdict] = (counts[verdict] ?? 0) + 1;
  console.log(`${verdict.padEnd(8)} ${part} ${thread} ${call} ${errno} #${nth} ${Math.round(performance.now() - a)}ms ${detail.slice(0, 300)}`);
}
console.log(counts, (performance.now() - begun) / 1000);
