/** One failure after the other against a daemon, and what came of each. */

import { deepStrictEqual } from "node:assert/strict";
import { eventually, stalled, within } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { childrenOf } from "../support/proc.ts";
import { Scratch } from "../support/scratch.ts";
import { TunnelClient } from "../support/tunnel_client.ts";
import { Guest } from "../support/tunnel_guest.ts";
import {
  AT_START,
  type Injection,
  injections,
  isPossible,
  type Places,
  placesOf,
} from "./injections.ts";
import { isHonest, type Part, PARTS } from "./scenario.ts";
import { parse, Strace } from "./strace.ts";

/**
 * `unharmed`: all is as without the failure; `told`: an honest answer; `aborted`: Deno or V8 gave up; `missed`: the
 * call was not made this time; `fault`: anything else.
 */
export type Verdict = "unharmed" | "told" | "aborted" | "missed" | "fault";

export interface Result extends Injection {
  readonly verdict: Verdict;
  readonly detail: string;
}

/** Longer than any part takes. */
const HANG_MS = 30_000;
/** How soon everything must be as it was. */
const SETTLE_MS = 10_000;
/** Threads of the core, and those of them that are there from the start to the end. */
const OF_CORE = /^(guestd-|connections$)/;
const LASTING = /^guestd-(superv|spawner|spooler|proc)/;

/** What Deno says of itself before it ends. */
const ABORTED = /Deno has panicked|Deno could not start/;

/** Invariant: whatever `#daemon` is asked to do is over, and it then has what `#had` lists. */
export class Campaign implements AsyncDisposable {
  readonly #scratch = new Scratch();
  readonly #guest = new Guest();
  readonly #draw: () => number;
  #daemon: Daemon | undefined;
  #tunnel: TunnelClient | undefined;
  #had: readonly string[] = [];

  constructor(draw: () => number) {
    this.#draw = draw;
    for (const name of ["tmp", "spool", "work"]) Deno.mkdirSync(this.#scratch.join(name));
    void this.#guest.echo();
  }

  /** What can be made to fail of what each part is seen to call. */
  async plan(parts: readonly Injection["part"][]): Promise<Injection[]> {
    const all: Injection[] = [];
    for (const part of parts) {
      const calls = part === "start" ? () => this.#callsOfStart() : () => this.#calls(part);
      all.push(...injections(part, await calls(), await calls(), this.#draw));
    }
    return all;
  }

  async inject(injection: Injection): Promise<Result> {
    const { part, call, errno, nth } = injection;
    const expressions = ["-e", `trace=${call}`, "-e", `inject=${call}:error=${errno}:when=${nth}`];
    return part === "start"
      ? await this.#injectAtStart(injection, expressions)
      : await this.#injectInto(part, injection, expressions);
  }

  async #injectInto(part: Part, injection: Injection, expressions: string[]): Promise<Result> {
    const inChild = injection.thread === "child";
    const traced = (): number[] =>
      [...this.#threads()].flatMap(([tid, name]) => (name === injection.thread ? [tid] : []));
    const daemon = await this.#running();
    // Threads that are not needed end after a while.
    if (!inChild && traced().length === 0) await this.#run(part);
    let [verdict, detail]: [Verdict, string] = ["unharmed", ""];
    const failed = (error: unknown): void => {
      verdict = isHonest(error) && verdict !== "fault" ? "told" : "fault";
      detail = messageOf(error);
    };
    const before = daemon.log.lines.length;
    const tids = inChild ? [daemon.pid] : traced();
    const strace = await Strace.attach(tids, ...inChild ? ["-f"] : [], ...expressions);
    await this.#run(part).catch(failed);
    const injected = (await strace.detach()).filter((seen) => seen.injected);
    try {
      if (verdict !== "unharmed") await this.#endWhatRuns();
      await this.#settled();
    } catch (error) {
      verdict = "fault";
      failed(error);
    }
    const raw = daemon.log.lines.slice(before).filter(({ level }) => level === "raw");
    if (raw.length > 0) {
      // A panic of the core is none of Deno's.
      detail = raw.map(({ msg }) => msg).join("\n");
      verdict = ABORTED.test(detail) ? "aborted" : "fault";
    }
    if (verdict === "fault" || verdict === "aborted") await this.#discard();
    const none = injected.length === 0 && verdict === "unharmed";
    if (none || !injected.every(isPossible)) verdict = "missed";
    return { ...injection, verdict, detail };
  }

  async #injectAtStart(injection: Injection, expressions: string[]): Promise<Result> {
    const log = this.#scratch.join("start");
    let [verdict, detail]: [Verdict, string] = ["unharmed", ""];
    try {
      await this.#live(traceFromStart(log, expressions));
    } catch (error) {
      detail = messageOf(error);
      // It says so in a line of its log and ends, or the runtime does in words of its own.
      const said = isHonest(error) || /^Cannot see the daemon listen.*"cannot serve"/s.test(detail);
      verdict = said ? "told" : ABORTED.test(detail) ? "aborted" : "fault";
    }
    const seen = parse(Deno.readTextFileSync(log));
    if (verdict === "unharmed" && !seen.some(({ injected }) => injected)) verdict = "missed";
    return { ...injection, verdict, detail };
  }

  async #calls(part: Part): Promise<Places> {
    await this.#running();
    await this.#run(part);
    const threads = this.#threads();
    const strace = await Strace.attach([...threads.keys()]);
    await this.#run(part);
    return placesOf(await strace.detach(), threads);
  }

  async #callsOfStart(): Promise<Places> {
    const log = this.#scratch.join("start");
    const through = traceFromStart(log, ["-e", `trace=${AT_START}`]);
    const pid = await this.#live(through);
    return placesOf(parse(Deno.readTextFileSync(log)), new Map([[pid, "main"]]));
  }

  /** A short life, with what has the core start each of its threads; gives the process id. */
  async #live(through: string[]): Promise<number> {
    await using daemon = await Daemon.bootstrapped({ through });
    for (const part of ["create", "look", "tunnel"] as const) await this.#run(part, daemon);
    return daemon.pid;
  }

  async #running(): Promise<Daemon> {
    if (this.#daemon !== undefined) return this.#daemon;
    const env = {
      TMPDIR: this.#scratch.join("tmp"),
      GUESTD_SPOOL_DIR: this.#scratch.join("spool"),
      GUESTD_MAX_OUTPUT_BYTES: String(100 << 20),
      GUESTD_OUTPUT_LINGER_SECS: "1",
      GUESTD_KILL_GRACE_SECS: "1",
    };
    this.#daemon = await Daemon.bootstrapped({ env });
    // One that stays open, so that there is somebody who looks at connections.
    this.#tunnel = await TunnelClient.open(this.#daemon, `?port=${this.#guest.port}`);
    for (const part of Object.keys(PARTS) as Part[]) if (part !== "spool") await this.#run(part);
    await eventually("no child", () => childrenOf(this.#pid).length === 0);
    await stalled("the daemon at rest", () => this.#belongings().length);
    this.#had = this.#belongings();
    return this.#daemon;
  }

  get #pid(): number {
    return this.#daemon?.pid ?? 0;
  }

  async #run(part: Part, other?: Daemon): Promise<void> {
    const dir = Deno.makeTempDirSync({ dir: this.#scratch.join("work") });
    const given = { daemon: other ?? await this.#running(), dir, guest: this.#guest };
    try {
      await within(`the end of ${part}`, PARTS[part](given), HANG_MS);
    } finally {
      Deno.removeSync(dir, { recursive: true });
    }
  }

  /** What a part that was broken off has left running, ended as a client would. */
  async #endWhatRuns(): Promise<void> {
    const daemon = await this.#running();
    for (const { exec_id } of await daemon.guest.procs()) {
      if ((await daemon.guest.poll(exec_id)).phase === "acked") continue;
      await daemon.guest.kill(exec_id);
      await daemon.outcome(exec_id);
      await daemon.guest.ack(exec_id);
    }
  }

  /** Throws unless the daemon is healthy, and soon has what it had and nothing else. */
  async #settled(): Promise<void> {
    const { bootstrapped, busy } = await (await this.#running()).guest.health();
    deepStrictEqual({ bootstrapped, busy }, { bootstrapped: true, busy: false });
    const same = (): boolean => this.#belongings().join() === this.#had.join();
    await eventually("nothing left behind", same, SETTLE_MS).catch(() => {
      deepStrictEqual(this.#belongings(), this.#had);
    });
  }

  /** Children, threads that last, descriptors, and files where it makes temporary ones. */
  #belongings(): string[] {
    const all = childrenOf(this.#pid).map(({ comm, state }) => `child ${comm} ${state}`);
    all.push(...[...this.#threads().values()].filter((name) => LASTING.test(name)));
    const open = openSockets();
    for (const name of list(`/proc/${this.#pid}/fd`)) {
      const target = read(() => Deno.readLinkSync(`/proc/${this.#pid}/fd/${name}`));
      // Of sockets, clients' connections come and go: only those count that have ended and are still held.
      if (!open.delete(target)) all.push(target.replace(/^(pipe|socket):.*/, "$1"));
    }
    for (const name of ["tmp", "spool", "work"]) all.push(...list(this.#scratch.join(name)));
    return all.sort();
  }

  /** The threads that are traced. */
  #threads(): Map<number, string> {
    const names = list(`/proc/${this.#pid}/task`).map((tid): [number, string] => {
      const name = read(() => Deno.readTextFileSync(`/proc/${this.#pid}/task/${tid}/comm`)).trim();
      return [Number(tid), Number(tid) === this.#pid ? "main" : name];
    });
    return new Map(names.filter(([, name]) => name === "main" || OF_CORE.test(name)));
  }

  async #discard(): Promise<void> {
    this.#tunnel?.[Symbol.dispose]();
    this.#daemon?.signal("SIGKILL");
    await this.#daemon?.[Symbol.asyncDispose]();
    this.#daemon = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#tunnel?.[Symbol.dispose]();
    await this.#daemon?.[Symbol.asyncDispose]();
    this.#guest[Symbol.dispose]();
    this.#scratch[Symbol.dispose]();
  }
}

/** A daemon becomes strace's tracee and keeps the process id of what was started. */
function traceFromStart(log: string, expressions: string[]): string[] {
  return ["strace", "-D", "-f", "-q", "-y", "--seccomp-bpf", "-o", log, ...expressions];
}

/** TCP sockets of this machine that are connected or listen, as a descriptor's link names them. */
function openSockets(): Set<string> {
  const lines = Deno.readTextFileSync("/proc/net/tcp").trim().split("\n").slice(1);
  const fields = lines.map((line) => line.trim().split(/\s+/));
  return new Set(
    fields.flatMap((all) => /^0[1A]$/.test(all[3] ?? "") ? [`socket:[${all[9]}]`] : []),
  );
}

function list(dir: string): string[] {
  return [...Deno.readDirSync(dir)].map(({ name }) => name);
}

/** What is gone since it was listed reads as nothing. */
function read(probe: () => string): string {
  try {
    return probe();
  } catch {
    return "";
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
