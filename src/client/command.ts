/** Commands, shaped as `Deno.Command` has them. */

import {
  type ChildOptions,
  ChildProcess,
  type CommandOutput,
  type OutputOptions,
} from "./child.ts";
import { GuestError } from "./errors.ts";
import { killExec, startExec } from "./exec_calls.ts";
import type { Requests } from "./requests.ts";

/** How to run a command. */
export interface CommandOptions extends Omit<ChildOptions, "offset"> {
  /** Its arguments. */
  readonly args?: readonly string[];
  /** Its working directory; the daemon's unless given. */
  readonly cwd?: string;
  /** Variables, laid over the environment that the run hook gave the guest. */
  readonly env?: Readonly<Record<string, string>>;
  /** Numeric user to run as; the daemon's unless given. */
  readonly uid?: number;
  /** Numeric group; the primary one of `uid` unless given. */
  readonly gid?: number;
  /** Time that it may take, in milliseconds; its group is killed when that is over. */
  readonly timeout?: number;
  /** `piped` gives `child.stdin`; `null`, the default, lets it read nothing. */
  readonly stdin?: "piped" | "null";
  /**
   * The id under which the guest knows it, at most 1024 bytes of UTF-8. A random one unless given. A command that runs
   * or ran under it already is not started again: then this is that one.
   */
  readonly id?: string;
  /** Whether what it leaves behind in its process group is killed when it exits. */
  readonly reap?: boolean;
  /** Kills the command when it aborts. */
  readonly signal?: AbortSignal;
}

/** A command that is ready to be started, as often as wanted unless it has an id. */
export class Command {
  readonly #requests: Requests;
  readonly #command: readonly string[];
  readonly #shell: boolean;
  readonly #options: CommandOptions;

  /** Made by `guest.command` and `guest.shell`. */
  constructor(
    requests: Requests,
    command: readonly string[],
    shell: boolean,
    options: CommandOptions,
  ) {
    this.#requests = requests;
    this.#command = command;
    this.#shell = shell;
    this.#options = options;
  }

  /**
   * Starts it and follows its output. The start is sent again after a lost answer, which starts nothing twice. Throws
   * `SpawnFailed` where there is no such program or directory.
   */
  async spawn(): Promise<ChildProcess> {
    const { signal, ...rest } = this.#options;
    const id = await this.start();
    return new ChildProcess(this.#requests, id, { ...rest, kill: signal, owned: true });
  }

  /** Starts it, follows nothing and gives its id; its result is kept until an ack. Throws as `spawn` does. */
  async start(): Promise<string> {
    const { id = crypto.randomUUID(), signal } = this.#options;
    signal?.throwIfAborted();
    const started = startExec(this.#requests, this.#request(id));
    await unlessAborted(started, signal, () => killExec(this.#requests, id));
    return id;
  }

  /**
   * Runs it to its end and gives what it wrote, byte for byte; the guest then forgets it, unless it is kept. Throws as
   * `spawn` does, `OutputTooLarge`, and `OutputGap` where output was lost.
   */
  async output(options: OutputOptions = {}): Promise<CommandOutput> {
    if (this.#options.stdin === "piped") {
      throw new GuestError("Cannot collect the output: stdin is piped, so spawn the command");
    }
    const child = await this.spawn();
    return await child.output(options);
  }

  #request(id: string): Record<string, unknown> {
    const { cwd, env, uid, gid, timeout, stdin, reap } = this.#options;
    return {
      exec_id: id,
      command: this.#command,
      ...(this.#shell ? { shell: true } : {}),
      ...(cwd === undefined ? {} : { cwd }),
      ...(env === undefined ? {} : { env }),
      ...(uid === undefined ? {} : { user: uid }),
      ...(gid === undefined ? {} : { group: gid }),
      ...(timeout === undefined ? {} : { timeout_sec: timeout / 1000 }),
      ...(stdin === undefined ? {} : { stdin: stdin === "piped" }),
      ...(reap === undefined ? {} : { reap_group_on_exit: reap }),
    };
  }
}

/** Waits for `started`, or throws when the signal aborts: then what was started meanwhile is undone. */
async function unlessAborted(
  started: Promise<unknown>,
  signal: AbortSignal | undefined,
  undo: () => Promise<unknown>,
): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const aborted = (): void => {
    started.then(undo).catch(() => {});
    reject(signal?.reason);
  };
  signal?.addEventListener("abort", aborted, { once: true });
  try {
    await Promise.race([started, promise]);
  } finally {
    signal?.removeEventListener("abort", aborted);
  }
}
