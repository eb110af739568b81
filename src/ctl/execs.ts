/** ps, kill and ack; health and schema. */

import type { ProcGroup } from "../client/mod.ts";
import { type Common, guestOf, printJson } from "./connection.ts";
import { EXIT } from "./failure.ts";

/** Prints the commands that the guest knows. */
export async function ps(options: Common): Promise<number> {
  const procs = await guestOf(options).procs();
  if (options.json) printJson(procs);
  else console.log(tableOf(procs));
  return EXIT.ok;
}

/** A table of commands, with a line of names on top. */
export function tableOf(procs: readonly ProcGroup[]): string {
  const rows = procs.map(({ exec_id, child_exited, started_at, pids }) => [
    printable(exec_id),
    child_exited ? "exited" : "running",
    ageOf(Date.now() / 1000 - Number(started_at)),
    pids.length === 0 ? "-" : pids.join(" "),
  ]);
  const all = [["ID", "PHASE", "AGE", "PROCESSES"], ...rows];
  const widths = [0, 1, 2].map((at) => Math.max(...all.map((row) => row[at]?.length ?? 0)));
  return all.map((row) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join("  ").trimEnd())
    .join("\n");
}

/** Seconds in words of one unit. */
export function ageOf(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole}s`;
  if (whole < 7200) return `${Math.floor(whole / 60)}m`;
  return whole < 172_800 ? `${Math.floor(whole / 3600)}h` : `${Math.floor(whole / 86_400)}d`;
}

/** Kills commands; 1 where one of them had ended. */
export async function kill(ids: readonly string[], options: Common): Promise<number> {
  const guest = guestOf(options);
  const killed = await Promise.all(ids.map(async (id) => ({ id, killed: await guest.kill(id) })));
  if (options.json) printJson(killed);
  const late = killed.filter((each) => !each.killed);
  for (const { id } of late) console.error(`guestctl: ${printable(id)} had ended before`);
  return late.length === 0 ? EXIT.ok : EXIT.failed;
}

/** Takes a result over and prints it. */
export async function ack(id: string, options: Common): Promise<number> {
  const outcome = await guestOf(options).ack(id);
  if (options.json) {
    printJson(outcome);
    return EXIT.ok;
  }
  const encoder = new TextEncoder();
  Deno.stdout.writeSync(encoder.encode(outcome.stdout));
  Deno.stderr.writeSync(encoder.encode(outcome.stderr));
  return EXIT.ok;
}

/** Prints how the guest is. */
export async function health(options: Common): Promise<number> {
  printJson(await guestOf(options).health());
  return EXIT.ok;
}

/** Prints what the guest publishes of itself. */
export async function schema(options: Common): Promise<number> {
  printJson(await guestOf(options).schema());
  return EXIT.ok;
}

/** An id that does nothing to a terminal. */
function printable(id: string): string {
  return /^[\x20-\x7e\u00a0-\u{10ffff}]+$/u.test(id) ? id : JSON.stringify(id);
}
