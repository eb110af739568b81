import type { StartRequest } from "../contract/exec.ts";
import { cut, quoted, Refusal } from "../contract/refusal.ts";
import type { ProcGroup } from "../contract/system.ts";
import type { Log } from "../log.ts";
import type { Core } from "../native/core.ts";
import { NativeExec } from "../native/exec.ts";
import { StreamReader } from "../native/stream.ts";
import { liveMembers } from "../native/system.ts";
import { Collector } from "./collector.ts";
import { Exec } from "./exec.ts";
import {
  difference,
  fingerprintOf,
  Launch,
  type LaunchSources,
  spawnFailure,
  startNote,
} from "./launch.ts";

/** What the registry is made with. */
export interface RegistryOptions {
  /** Starts and watches the commands. */
  readonly core: Core;
  /** Where environments and identities come from. */
  readonly sources: LaunchSources;
  /** How long an acked exec is kept, in seconds. */
  readonly ttlSecs: number;
  /** Where starts, ends and kills are logged. */
  readonly log: Log;
}

/** A start under way, or what came of it: no promise is kept for it, for there are thousands. */
type Entry = Promise<Exec> | Exec;

/**
 * The registered execs, in the order of their starts.
 *
 * Invariant: an id is in `#entries` from before the first await of its start until the start
 * failed or the exec was collected; so there is one child an id, however many starts race.
 */
export class Registry implements Disposable {
  readonly #core: Core;
  readonly #launching: Launch;
  readonly #log: Log;
  readonly #ownUid: number;
  readonly #entries = new Map<string, Entry>();
  readonly #collector: Collector<Exec>;
  #draining = false;
  #closed = false;

  /** An empty registry. */
  constructor({ core, sources, ttlSecs, log }: RegistryOptions) {
    this.#core = core;
    this.#launching = new Launch(sources);
    this.#log = log;
    this.#ownUid = sources.ownUid;
    this.#collector = new Collector(ttlSecs * 1000, (exec) => this.#collect(exec));
  }

  /** Starts a command, or finds the one that the id started. Throws `spawn_failed`. */
  start(request: StartRequest): Promise<Exec> {
    const known = this.#entries.get(request.exec_id);
    if (known !== undefined) return this.#retried(known, request);
    if (this.#closed) {
      return Promise.reject(new Refusal("spawn_failed", "cannot start: the daemon is ending"));
    }
    const started = this.#launch(request);
    this.#entries.set(request.exec_id, started);
    started.then(
      // In the place of its start, so that the order stays that of the starts.
      (exec) => this.#entries.set(request.exec_id, exec),
      () => this.#entries.delete(request.exec_id),
    );
    return started;
  }

  /** The exec of an id, once its start succeeded. Throws `unknown_exec`. */
  async get(id: string | undefined): Promise<Exec> {
    const entry = id === undefined ? undefined : this.#entries.get(id);
    // A start that is under way is waited for, and one that fails leaves no exec.
    const exec = entry instanceof Promise ? await entry.catch(() => undefined) : entry;
    if (exec === undefined) throw new Refusal("unknown_exec", unknown(id));
    return exec;
  }

  /** Marks an exec acked; it is collected when its time has passed. Throws the 409 refusals. */
  ack(exec: Exec): void {
    const { phase } = exec;
    if (phase === "running") throw new Refusal("still_running", "the exec has not ended yet");
    if (phase === "acked") throw new Refusal("already_acked", "the exec was acked before");
    exec.ack();
    this.#collector.add(exec);
  }

  /** Attaches a reader to an exec's stream. */
  subscribe(exec: Exec, offset: bigint): StreamReader {
    return new StreamReader(this.#core, exec.native, offset);
  }

  /** How many execs there are, and whether one has not published its outcome. */
  count(): { readonly busy: boolean; readonly count: number } {
    const isBusy = (entry: Entry): boolean => entry instanceof Promise || entry.phase === "running";
    return { busy: this.#entries.values().some(isBusy), count: this.#entries.size };
  }

  /** Every exec and who lives in its group. */
  async procs(): Promise<ProcGroup[]> {
    // Before the pass: what a leader left behind when it ended is then found by it, and a command that starts
    // meanwhile is not told to have no process.
    const seen = this.#execs().map((exec) => ({ exec, facts: exec.facts }));
    const members = await liveMembers(this.#core);
    return seen.map(({ exec, facts }) => ({
      exec_id: exec.id,
      pgid: facts.pid,
      started_at: facts.startedAt,
      child_exited: facts.exited,
      reap: exec.reap,
      pids: members.get(exec.native.id) ?? [],
    }));
  }

  /** Whether polls wait no longer. */
  get draining(): boolean {
    return this.#draining;
  }

  /** Has no poll wait, now or later. */
  drain(): void {
    this.#draining = true;
    for (const exec of this.#execs()) exec.stopWaiting();
  }

  /** Starts nothing any more: every group is about to be ended. */
  close(): void {
    this.#closed = true;
  }

  /** Whether every exec has published its outcome; if not, ends when all have, or after `ms`. */
  async settled(ms: number): Promise<void> {
    const running = this.#execs().filter((exec) => exec.phase === "running");
    await Promise.all(running.map((exec) => exec.untilPublished(ms)));
  }

  /** Collects nothing any more. */
  [Symbol.dispose](): void {
    this.#collector[Symbol.dispose]();
  }

  /** Those whose start succeeded. */
  #execs(): Exec[] {
    return [...this.#entries.values()].flatMap((entry) => entry instanceof Promise ? [] : [entry]);
  }

  /** Ends the group of an exec; whether it had a live member. Who asks meanwhile shares the core's escalation. */
  async kill(exec: Exec): Promise<boolean> {
    const killed = await exec.native.kill();
    this.#log.info("kill", { exec_id: cut(exec.id), killed });
    return killed;
  }

  async #launch(request: StartRequest): Promise<Exec> {
    let native: NativeExec;
    try {
      native = await NativeExec.start(this.#core, this.#launching.of(request));
    } catch (error) {
      const { reason, detail } = spawnFailure(error, request);
      throw new Refusal("spawn_failed", detail, reason);
    }
    const { pid } = native.facts();
    const user = request.user ?? this.#ownUid;
    this.#log.info("command started", { ...startNote(request), pid, user });
    return new Exec({
      id: request.exec_id,
      hasStdin: request.stdin,
      reap: request.reap_group_on_exit,
      fingerprint: fingerprintOf(this.#core, request),
      native,
      onPublished: (exec) => this.#tellEnd(exec),
    });
  }

  /** Nothing is started; a client that wanted something else than the first time has made a mistake. */
  async #retried(entry: Entry, request: StartRequest): Promise<Exec> {
    const exec = await entry;
    const fields = difference(exec.fingerprint, fingerprintOf(this.#core, request));
    if (fields !== "") {
      const exec_id = cut(exec.id);
      this.#log.warn("a retried start differs from the first, which counts", { exec_id, fields });
    }
    return exec;
  }

  #tellEnd(exec: Exec): void {
    const { exitCode, signal, total } = exec.facts;
    this.#log.info("command ended", {
      exec_id: cut(exec.id),
      ...(signal === null ? { exit_code: exitCode } : { signal }),
      seconds: Math.round(exec.ageMs) / 1000,
      bytes: Number(total),
    });
  }

  #collect(exec: Exec): void {
    this.#entries.delete(exec.id);
    exec.collect();
  }
}

function unknown(id: string | undefined): string {
  if (id === undefined) return "the id in the path is not percent-encoded UTF-8";
  const start = id === "start" ? "; to start a command, POST to /v1/exec/start" : "";
  return `no exec is registered under ${quoted(id)}${start}`;
}
