/** What /proc says about a process, for tests that look at the daemon or its children from outside. */

import { eventually } from "./await_event.ts";

/** The fields of /proc/PID/stat that tests need. */
export interface ProcessStat {
  readonly pid: number;
  readonly comm: string;
  /** One letter: R, S, D, T, Z, X, … */
  readonly state: string;
  readonly ppid: number;
  readonly pgid: number;
  readonly session: number;
}

/** Undefined where there is no such process (any more). */
export function processStat(pid: number): ProcessStat | undefined {
  let text: string;
  try {
    text = Deno.readTextFileSync(`/proc/${pid}/stat`);
  } catch {
    return undefined;
  }
  // The name may hold spaces and parentheses of its own.
  const end = text.lastIndexOf(")");
  const [state = "", ppid, pgid, session] = text.slice(end + 2).split(" ");
  return {
    pid,
    comm: text.slice(text.indexOf("(") + 1, end),
    state,
    ppid: Number(ppid),
    pgid: Number(pgid),
    session: Number(session),
  };
}

/** Whether it runs, as the protocol counts: a zombie does not. */
export function isLive(pid: number): boolean {
  const stat = processStat(pid);
  return stat !== undefined && stat.state !== "Z" && stat.state !== "X";
}

/** Waits until none of them is live. */
export async function gone(...pids: readonly number[]): Promise<void> {
  await eventually(`the end of ${pids.join(", ")}`, () => !pids.some(isLive));
}

/** Every process of which /proc tells. */
export function processes(): ProcessStat[] {
  const found: ProcessStat[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    const stat = /^[0-9]+$/.test(name) ? processStat(Number(name)) : undefined;
    if (stat !== undefined) found.push(stat);
  }
  return found;
}

/** Children of a process, zombies included. */
export function childrenOf(pid: number): ProcessStat[] {
  return processes().filter((stat) => stat.ppid === pid);
}

/** Processor time that it has used, in seconds. */
export function processorSeconds(pid: number): number {
  const text = Deno.readTextFileSync(`/proc/${pid}/stat`);
  const [user = "", system = ""] = text.slice(text.lastIndexOf(")") + 2).split(" ").slice(11);
  // The kernel counts hundredths of a second for its users, whatever its own clock does.
  return (Number(user) + Number(system)) / 100;
}

export function residentBytes(pid: number): number {
  return statusBytes(pid, "VmRSS");
}

/** Resident memory that no file backs, in bytes: what a process holds for itself. */
export function ownBytes(pid: number): number {
  return statusBytes(pid, "RssAnon");
}

/** The most memory that was resident since {@link forgetPeak}, in bytes. */
export function peakBytes(pid: number): number {
  return statusBytes(pid, "VmHWM");
}

/** Lets {@link peakBytes} begin again from what is resident now. */
export function forgetPeak(pid: number): void {
  Deno.writeTextFileSync(`/proc/${pid}/clear_refs`, "5");
}

function statusBytes(pid: number, field: string): number {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  return Number(new RegExp(`^${field}:\\s+([0-9]+) kB$`, "m").exec(status)?.[1]) * 1024;
}

export function fdCount(pid: number): number {
  return [...Deno.readDirSync(`/proc/${pid}/fd`)].length;
}

/** Number of connections to a port of this machine that both sides hold open; those that one side ended do not count. */
export function establishedAt(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const lines = Deno.readTextFileSync("/proc/net/tcp").split("\n").slice(1);
  return lines.filter((line) => {
    const [, address = "", , state] = line.trim().split(/\s+/);
    return address.endsWith(local) && state === "01";
  }).length;
}

/** Number of open descriptors that lead to children: pipes and pidfds. Connections and files do not show here. */
export function childFdCount(pid: number): number {
  let count = 0;
  for (const { name } of Deno.readDirSync(`/proc/${pid}/fd`)) {
    try {
      const target = Deno.readLinkSync(`/proc/${pid}/fd/${name}`);
      if (/^pipe:|pidfd/.test(target)) count++;
    } catch {
      // Closed since the listing.
    }
  }
  return count;
}

/** The name of each thread; the kernel cuts it to 15 characters. */
export function threadNames(pid: number): string[] {
  const names: string[] = [];
  for (const { name } of Deno.readDirSync(`/proc/${pid}/task`)) {
    try {
      names.push(Deno.readTextFileSync(`/proc/${pid}/task/${name}/comm`).trim());
    } catch {
      // Ended since the listing.
    }
  }
  return names;
}
