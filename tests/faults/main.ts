/** `./build.sh faults [--write] [--seed N] [PART...]`: the whole campaign, and its table. */

import { Campaign, type Result, type Verdict } from "./campaign.ts";
import { type Injection, random } from "./injections.ts";
import { PARTS } from "./scenario.ts";

const VERDICTS: readonly Verdict[] = ["unharmed", "told", "aborted", "fault"];

function line({ part, thread, call, errno, nth, verdict, detail }: Result): string {
  return `${verdict}: ${part}, ${thread}: ${call} #${nth} ${errno} ${detail.replaceAll("\n", " ")}`;
}

function cause(detail: string): string {
  return /Deno could not start[^.]*|panicked at [^\n]*/.exec(detail)?.[0].replace(/\/\S*\//, "") ??
    "";
}

/** A row for each part, and what has aborted, once for each cause. */
function table(results: readonly Result[]): string {
  const rows = [...Map.groupBy(results, ({ part }) => part)].map(([part, all]) => {
    const calls = [...new Set(all.map(({ call }) => `\`${call}\``))].sort().join(" ");
    const counts = VERDICTS.map((verdict) => all.filter((one) => one.verdict === verdict).length);
    return `| ${[part, calls, all.length, ...counts].join(" | ")} |`;
  });
  const aborts = Map.groupBy(
    results.filter(({ verdict }) => verdict === "aborted"),
    ({ part, thread, call, detail }) => `${part}, ${thread}: \`${call}\` | ${cause(detail)}`,
  );
  const causes = [...aborts].map(([where, all]) => {
    const which = [...new Set(all.map(({ errno, nth }) => `${errno} #${nth}`))].join(", ");
    return `| ${where} | ${which} |`;
  });
  return [
    "| part | calls that were made to fail | injections | unharmed | told | aborted | faults |",
    "|---|---|---|---|---|---|---|",
    ...rows,
    "",
    "What has aborted:",
    "",
    "| call | in Deno's words | with |",
    "|---|---|---|",
    ...causes,
  ].join("\n");
}

const args = [...Deno.args];
const write = args.includes("--write");
const at = args.indexOf("--seed");
const seed = at === -1 ? crypto.getRandomValues(new Uint32Array(1))[0] ?? 0 : Number(args[at + 1]);
const known = ["start", ...Object.keys(PARTS)] as Injection["part"][];
const wanted = known.filter((part) => args.includes(part));
const begun = performance.now();
const results: Result[] = [];
console.log(`seed ${seed}`);
{
  await using campaign = new Campaign(random(seed));
  const plan = await campaign.plan(wanted.length === 0 ? known : wanted);
  console.log(`${plan.length} calls can be made to fail`);
  for (const injection of plan) {
    const result = await campaign.inject(injection);
    if (result.verdict === "missed") continue;
    results.push(result);
    if (args.includes("--verbose") || result.verdict === "fault") console.log(line(result));
    if (results.length % 100 === 0) console.log(`${results.length} injections`);
  }
}
const seconds = Math.round((performance.now() - begun) / 1000);
const faults = results.filter(({ verdict }) => verdict === "fault");
const text = table(results);
console.log(`\n${text}\n\n${results.length} injections in ${seconds} s, ${faults.length} faults`);
if (write) {
  const page = new URL("../../docs/faults.md", import.meta.url);
  const [head = ""] = Deno.readTextFileSync(page).split("| part |");
  const said = `Seed ${seed}: ${results.length} injections in ${seconds} s.`;
  Deno.writeTextFileSync(page, `${head.replace(/Seed .*\n\n$/, "")}${said}\n\n${text}\n`);
}
Deno.exit(faults.length === 0 ? 0 : 1);
