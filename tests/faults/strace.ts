/** strace on threads of a running process: what they call, and a call of theirs that is made to fail. */

import { within } from "../support/await_event.ts";

/** A system call that was seen. */
export interface Seen {
  /** The thread that made it. */
  readonly tid: number;
  readonly name: string;
  /** What its first argument is a descriptor of, if it is one. */
  readonly file: string;
  /** Whether strace had it fail. */
  injected: boolean;
}

/** What is traced. */
export interface Tracing {
  /** Threads, or with `follow` one process with all its threads and the children that it clones. */
  readonly tids: readonly number[];
  readonly follow?: boolean;
  /** strace's own expressions, such as `trace=openat` and `inject=openat:error=EIO:when=1`. */
  readonly expressions: readonly string[];
}

/** An strace that has attached. */
export class Strace {
  readonly #tids: readonly number[];
  readonly #child: Deno.ChildProcess;
  readonly #log = Deno.makeTempFileSync({ prefix: "guestd-strace-" });
  readonly #said: Promise<void>;

  /** Returns once every thread that still lives is traced. */
  static async attach(tracing: Tracing): Promise<Strace> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const strace = new Strace(tracing, resolve);
    await within("strace attach", Promise.race([promise, strace.#said]));
    return strace;
  }

  private constructor({ tids, follow, expressions }: Tracing, attached: () => void) {
    const args = ["-y", "-o", this.#log, ...follow === true ? ["-f"] : []];
    for (const expression of expressions) args.push("-e", expression);
    for (const tid of tids) args.push("-p", String(tid));
    this.#tids = tids;
    this.#child = new Deno.Command("strace", { args, stdin: "null", stdout: "null", stderr: "piped" })
      .spawn();
    this.#said = this.#listen(attached);
  }

  async #listen(attached: () => void): Promise<void> {
    let text = "";
    for await (const chunk of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      // A thread that has ended since it was listed is told of too.
      const answers = text.match(/Process \d+ attached|PTRACE_SEIZE, \d+/g) ?? [];
      if (answers.length >= this.#tids.length) attached();
    }
  }

  /** Lets go of the threads, and gives the calls that were seen. */
  async detach(): Promise<Seen[]> {
    try {
      this.#child.kill("SIGINT");
    } catch {
      // What it traced has ended, and so has it.
    }
    await within("strace end", this.#child.status);
    await this.#said;
    const text = Deno.readTextFileSync(this.#log);
    Deno.removeSync(this.#log);
    return parse(text, this.#tids[0] ?? 0);
  }
}

/** `only` is the thread of lines that name none, as where only one is traced. */
function parse(text: string, only: number): Seen[] {
  const all: Seen[] = [];
  const last = new Map<number, Seen>();
  for (const line of text.split("\n")) {
    const [, tid, rest = ""] = /^(?:(\d+) +)?(.*)$/.exec(line) ?? [];
    const of = tid === undefined ? only : Number(tid);
    const call = /^(\w+)\((?:\d+<(.*?)>[,)])?/.exec(rest);
    if (call !== null) {
      const [, name = "", file = ""] = call;
      last.set(of, { tid: of, name, file, injected: false });
      all.push(last.get(of) as Seen);
    }
    // A call may be told of in two lines.
    const seen = last.get(of);
    if (seen !== undefined && rest.endsWith("(INJECTED)")) seen.injected = true;
  }
  return all;
}
