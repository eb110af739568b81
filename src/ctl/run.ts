/** run, attach and wait. */

import { AlreadyAcked, type CommandOptions } from "../client/mod.ts";
import { type Common, guestOf, printJson } from "./connection.ts";
import { Failure } from "./failure.ts";
import { exitCodeOf, follow, untilExit } from "./follow.ts";

/** Options of run. */
export interface RunOptions extends Common {
  /** Variables, as NAME=VALUE. */
  readonly env?: readonly string[];
  /** Working directory. */
  readonly workdir?: string;
  /** UID or UID:GID. */
  readonly user?: string;
  /** Seconds until it is killed. */
  readonly timeout?: string;
  /** Whether it gets guestctl's stdin. */
  readonly interactive?: boolean;
  /** Its id. */
  readonly id?: string;
  /** A line for the guest's shell, instead of a program. */
  readonly command?: string;
  /** Whether to print the id and leave. */
  readonly detach?: boolean;
  /** Whether an interrupt leaves it running. */
  readonly detachOnInterrupt?: boolean;
}

/** Runs a command; its exit code. */
export async function run(words: readonly string[], options: RunOptions): Promise<number> {
  const [program, ...args] = words;
  const { id = crypto.randomUUID(), command: line, interactive = false } = options;
  if ((program === undefined) === (line === undefined)) {
    throw new Failure("Cannot run: give a program behind --, or a line with -c");
  }
  const guest = guestOf(options);
  const shaped: CommandOptions = {
    id,
    stdin: interactive ? "piped" : "null",
    ...(options.env === undefined ? {} : { env: variables(options.env) }),
    ...(options.workdir === undefined ? {} : { cwd: options.workdir }),
    ...(options.user === undefined ? {} : user(options.user)),
    ...(options.timeout === undefined ? {} : { timeout: seconds(options.timeout) * 1000 }),
  };
  const command = program === undefined
    ? guest.shell(line ?? "", shaped)
    : guest.command(program, { ...shaped, args });
  await command.start();
  if (options.detach) {
    console.log(id);
    return 0;
  }
  const owned = options.detachOnInterrupt !== true;
  const exit = await follow(guest, id, { stdin: interactive, owned });
  await guest.forget(id).catch((error) => {
    // Its result has been printed: a lost answer changes nothing.
    if (!(error instanceof AlreadyAcked)) throw error;
  });
  return exitCodeOf(exit);
}

/** Follows a command that runs or ran; its exit code. */
export async function attach(
  id: string,
  options: Common & { readonly offset?: string },
): Promise<number> {
  if (options.offset !== undefined && !/^\d+$/.test(options.offset)) {
    throw new Failure(`Cannot attach at '${options.offset}': an offset is a number of bytes`);
  }
  const offset = BigInt(options.offset ?? 0);
  return exitCodeOf(await follow(guestOf(options), id, { offset, owned: false }));
}

/** Waits for a command; its exit code. */
export async function wait(id: string, options: Common): Promise<number> {
  const guest = guestOf(options);
  const exit = await untilExit(guest, id);
  if (options.json) printJson(await guest.poll(id));
  return exitCodeOf(exit);
}

/** The variables of NAME=VALUE words; NAME alone takes guestctl's own. */
export function variables(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(words.map((word) => {
    const at = word.indexOf("=");
    const name = at === -1 ? word : word.slice(0, at);
    const value = at === -1 ? Deno.env.get(word) : word.slice(at + 1);
    if (name === "" || value === undefined) {
      throw new Failure(
        `Cannot set '${word}': a variable is NAME=VALUE, or the name of one of yours`,
      );
    }
    return [name, value];
  }));
}

function user(word: string): { readonly uid: number; readonly gid?: number } {
  const [, uid, gid] = /^(\d{1,10})(?::(\d{1,10}))?$/.exec(word) ?? [];
  if (uid === undefined) throw new Failure(`Cannot run as '${word}': a user is UID or UID:GID`);
  return { uid: Number(uid), ...(gid === undefined ? {} : { gid: Number(gid) }) };
}

function seconds(word: string): number {
  const value = Number(word);
  if (word.trim() !== "" && value > 0 && Number.isFinite(value)) return value;
  throw new Failure(`Cannot wait for '${word}': a timeout is a number of seconds`);
}
