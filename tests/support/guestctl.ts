/** The checkout's guestctl, as people run it. */

import { eventually, within } from "./await_event.ts";
import { sourceUrl } from "./source_files.ts";

export const GUESTCTL = sourceUrl("scripts/guestctl").pathname;

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** Whom it is to talk to. */
export interface Spoken {
  readonly url: string;
  readonly token: string | undefined;
}

/** How it ended, and what it wrote to stdout and stderr. */
export interface Said {
  readonly code: number;
  readonly out: string;
  readonly said: string;
}

/** A guestctl that talks to the daemon, or another program with its settings. */
export function begun(
  { url, token = "" }: Spoken,
  args: readonly string[],
  program: string = GUESTCTL,
): Deno.ChildProcess {
  return new Deno.Command(program, {
    args: [...args],
    env: { GUESTCTL_URL: url, GUESTCTL_TOKEN: token, TERM: "dumb" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Waits for its end, with this on its stdin. */
export async function ended(child: Deno.ChildProcess, input = ""): Promise<Said> {
  const writer = child.stdin.getWriter();
  if (input !== "") await writer.write(encoder.encode(input));
  await writer.close();
  const { code, stdout, stderr } = await within("guestctl", child.output());
  return { code, out: decoder.decode(stdout), said: decoder.decode(stderr) };
}

/** Runs it to its end, with this on its stdin. */
export async function said(to: Spoken, args: readonly string[], input = ""): Promise<Said> {
  return await ended(begun(to, args), input);
}

/** Types a line at a command on a terminal of 33 × 99, and after what it answers `exit 5`; gives the command's exit code. */
export async function typed(
  to: Spoken,
  command: string,
  line: string,
  answer: RegExp,
): Promise<number> {
  // script gives guestctl a terminal of its own.
  const inside = `stty rows 33 cols 99; exec ${command}`;
  const child = begun(to, ["-qfec", inside, "/dev/null"], "script");
  const writer = child.stdin.getWriter();
  let seen = "";
  const reading = (async () => {
    for await (const piece of child.stdout) seen += decoder.decode(piece, { stream: true });
  })();
  await writer.write(encoder.encode(`${line}\n`));
  await eventually("the answer", () => answer.test(seen));
  await writer.write(encoder.encode("exit 5\n"));
  const { code } = await within("its end", child.status);
  await reading;
  await writer.close().catch(() => {});
  await child.stderr.cancel();
  return code;
}

/** A `guestctl forward` under way. */
export class Forward implements AsyncDisposable {
  /** The local port. */
  readonly port: number;
  readonly #child: Deno.ChildProcess;
  readonly #words: ReadableStreamDefaultReader<Uint8Array>;

  private constructor(
    port: number,
    child: Deno.ChildProcess,
    words: ReadableStreamDefaultReader<Uint8Array>,
  ) {
    this.port = port;
    this.#child = child;
    this.#words = words;
  }

  /** Goes on when the child says its port. */
  static async of(child: Deno.ChildProcess): Promise<Forward> {
    const words = child.stderr.getReader();
    const told = decoder.decode((await within("the port", words.read())).value);
    const [, port = ""] = /127\.0\.0\.1:(\d+) leads to/.exec(told) ?? [];
    return new Forward(Number(port), child, words);
  }

  /** Interrupts it, as Ctrl-C does; its exit code. */
  async interrupted(): Promise<number> {
    this.#child.kill("SIGINT");
    return (await within("its end", this.#child.status)).code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.status;
    await this.#words.cancel();
    await this.#child.stdout.cancel();
    await this.#child.stdin.close();
  }
}
