/** strace on a running process: what some of its threads call, and a call of theirs that is made to fail. */

import { within } from "../support/await_event.ts";

/** A system call that was seen. */
export interface Seen {
  readonly tid: number;
  readonly name: string;
  /** As strace shows it, its descriptors with what they lead to. */
  readonly line: string;
  injected: boolean;
}

export class Strace {
  readonly #child: Deno.ChildProcess;
  readonly #log = Deno.makeTempFileSync({ prefix: "guestd-strace-" });
  readonly #only: number;
  readonly #ended: Promise<void>;

  /** Attaches to threads, or with `-f` among `args` to a process and all that it clones, and returns when it has. */
  static async attach(tids: readonly number[], ...args: readonly string[]): Promise<Strace> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const strace = new Strace(tids, args, resolve);
    await within("strace attach", Promise.race([promise, strace.#ended]));
    return strace;
  }

  private constructor(tids: readonly number[], more: readonly string[], attached: () => void) {
    const args = ["-y", "-o", this.#log, ...more, ...tids.flatMap((tid) => ["-p", String(tid)])];
    const child = new Deno.Command("strace", { args, stdin: "null", stderr: "piped" }).spawn();
    this.#child = child;
    this.#only = tids[0] ?? 0;
    this.#ended = (async () => {
      let said = "";
      for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
        said += text;
        // A thread that has ended since it was listed is told of too.
        const answers = said.match(/Process \d+ attached|PTRACE_SEIZE, \d+/g) ?? [];
        if (answers.length >= tids.length) attached();
      }
    })();
  }

  /** Lets go of the threads, and gives the calls that were seen. */
  async detach(): Promise<Seen[]> {
    try {
      this.#child.kill("SIGINT");
    } catch {
      // What it traced has ended, and so has it.
    }
    await within("strace end", Promise.all([this.#child.status, this.#ended]));
    const text = Deno.readTextFileSync(this.#log);
    Deno.removeSync(this.#log);
    return parse(text, this.#only);
  }
}

/** `only` made what is told without a thread, as where one alone is traced. */
export function parse(text: string, only = 0): Seen[] {
  const all: Seen[] = [];
  const last = new Map<number, Seen>();
  for (const whole of text.split("\n")) {
    const [, thread, line = ""] = /^(?:(\d+) +)?(.*)$/.exec(whole) ?? [];
    const tid = thread === undefined ? only : Number(thread);
    const name = /^(\w+)\(/.exec(line)?.[1];
    if (name !== undefined) {
      const seen = { tid, name, line, injected: false };
      last.set(tid, seen);
      all.push(seen);
    }
    // A call may be told of in two lines, with its result in the second.
    const seen = last.get(tid);
    if (seen !== undefined && line.endsWith("(INJECTED)")) seen.injected = true;
  }
  return all;
}
