/** top: the guest's commands, processes, disk and hooks, again every second. */

import type { Health, ProcGroup } from "../client/mod.ts";
import { type Common, guestOf, urlOf } from "./connection.ts";
import { EXIT } from "./failure.ts";
import { tableOf } from "./execs.ts";

const EVERY_MS = 1000;
const HOME_AND_CLEAR = "\x1b[H\x1b[J";

/** Shows it until an interrupt; once where nobody looks at a terminal. */
export async function top(options: Common): Promise<number> {
  const guest = guestOf(options);
  const interrupted = Promise.withResolvers<boolean>();
  Deno.addSignalListener("SIGINT", () => interrupted.resolve(true));
  for (;;) {
    const [health, procs] = await Promise.all([guest.health(), guest.procs()]);
    const page = pageOf(urlOf(options), health, procs);
    if (!Deno.stdout.isTerminal()) {
      console.log(page);
      return EXIT.ok;
    }
    const { rows } = Deno.consoleSize();
    console.log(HOME_AND_CLEAR + page.split("\n").slice(0, rows - 1).join("\n"));
    const tick = new Promise<boolean>((resolve) => setTimeout(() => resolve(false), EVERY_MS));
    if (await Promise.race([interrupted.promise, tick])) return EXIT.ok;
  }
}

/** One page. */
export function pageOf(url: string, health: Health, procs: readonly ProcGroup[]): string {
  const { version, disk, busy, execs, hooks } = health;
  const mib = (bytes: number | bigint): number => Math.floor(Number(bytes) / 1024 / 1024);
  const room = disk === null
    ? "unknown"
    : `${mib(disk.available_bytes)} MiB free, ${mib(disk.reserve_bytes)} kept${
      disk.under_pressure ? ", writes are refused" : ""
    }`;
  const living = procs.reduce((sum, { pids }) => sum + pids.length, 0);
  const heads = [
    `guestd ${version} at ${url}, ${busy ? "busy" : "idle"}`,
    `commands ${execs}, processes ${living}`,
    `disk ${room}`,
    `hooks ${hooks.map(({ hook }) => hook).slice(-8).join(" ") || "none"}`,
  ];
  return `${heads.join("\n")}\n\n${tableOf(procs)}`;
}
