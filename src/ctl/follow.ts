/** A command's output on guestctl's own, to its end. */

import { type Exit, type Guest, signalName, StdinClosed } from "../client/mod.ts";
import { EXIT, Failure } from "./failure.ts";
import { Sink } from "./sink.ts";

/** How to follow. */
export interface Following {
  /** First byte that is wanted. */
  readonly offset?: number | bigint;
  /** Whether what comes on stdin goes to the command. */
  readonly stdin?: boolean;
  /** Ends the command at an interrupt; otherwise that only leaves it, and says how to come back. */
  readonly owned: boolean;
}

/**
 * Follows a command and gives its exit. Throws where the connection is lost for good, and a {@link Failure} where it was
 * left by an interrupt. A pipe that nobody reads any more ends a command that is owned.
 */
export async function follow(guest: Guest, id: string, options: Following): Promise<Exit> {
  const leaving = new AbortController();
  using _signals = new Interrupts(guest, id, options.owned, leaving);
  const sinks = { stdout: new Sink(Deno.stdout), stderr: new Sink(Deno.stderr) };
  let at = BigInt(options.offset ?? 0);
  if (options.stdin) void feed(guest, id, leaving.signal);
  try {
    const { signal } = leaving;
    for await (const event of guest.events(id, { offset: at, signal, onReconnect: told })) {
      if (event.event === "exit") {
        await Promise.all([sinks.stdout.flush(), sinks.stderr.flush()]);
        return event;
      }
      if (event.event === "gap") {
        console.error(
          `guestctl: bytes ${event.from} to ${event.to} are gone, nobody read them in time`,
        );
        at = event.to;
        continue;
      }
      // What both streams say is seen in the order in which it was said.
      await (event.stream === "stdout" ? sinks.stderr : sinks.stdout).flush();
      await sinks[event.stream].write(event.bytes);
      at = event.offset + BigInt(event.bytes.length);
    }
    throw new Failure("Cannot follow the command: its stream ended without an exit");
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe && options.owned) {
      await guest.kill(id);
      await untilExit(guest, id);
      await guest.forget(id).catch(() => {});
    }
    if (!leaving.signal.aborted || leaving.signal.reason !== error) throw error;
    const back = at === 0n ? "" : ` --offset ${at}`;
    throw new Failure(`left: guestctl attach${back} ${id} comes back`, EXIT.signal + 2);
  }
}

/** Waits for a command's end, without its output. */
export async function untilExit(guest: Guest, id: string): Promise<Exit> {
  for await (const event of guest.events(id, { offset: 2n ** 64n - 1n })) {
    if (event.event === "exit") return event;
  }
  throw new Failure("Cannot wait for the command: its stream ended without an exit");
}

/** The exit code that a command's end becomes, with a word on stderr where a signal ended it. */
export function exitCodeOf({ exit_code, signal }: Pick<Exit, "exit_code" | "signal">): number {
  if (exit_code !== null) return exit_code;
  console.error(`guestctl: the command was ended by ${signalName(signal ?? 0)}`);
  return EXIT.signal + (signal ?? 0);
}

function told(): void {
  if (Deno.stderr.isTerminal()) console.error("guestctl: the connection was lost, trying again");
}

/** Brings stdin to the command; its end is the command's end of file. */
async function feed(guest: Guest, id: string, signal: AbortSignal): Promise<void> {
  try {
    await Deno.stdin.readable.pipeTo(guest.stdin(id, signal), { signal });
  } catch (error) {
    // A command that reads no more, or is gone.
    if (signal.aborted || error instanceof StdinClosed) return;
    console.error(`guestctl: ${(error as Error).message}`);
  }
}

/** What Ctrl-C and its like do while a command is followed. */
class Interrupts implements Disposable {
  readonly #signals: readonly Deno.Signal[] = ["SIGINT", "SIGTERM", "SIGHUP"];
  readonly #handler: () => void;

  constructor(guest: Guest, id: string, owned: boolean, leaving: AbortController) {
    let before = false;
    this.#handler = () => {
      if (!owned) return leaving.abort();
      // The kill that the first one began goes on in the guest.
      if (before) Deno.exit(EXIT.signal + 2);
      before = true;
      guest.kill(id).catch((error) => console.error(`guestctl: ${error.message}`));
    };
    for (const signal of this.#signals) Deno.addSignalListener(signal, this.#handler);
  }

  [Symbol.dispose](): void {
    for (const signal of this.#signals) Deno.removeSignalListener(signal, this.#handler);
  }
}
