/** A daemon under attack: what of it is traced, and what a part must not leave behind in it. */

import { within } from "../support/await_event.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { childrenOf } from "../support/proc.ts";
import { Scratch } from "../support/scratch.ts";
import { Guest } from "../support/tunnel_guest.ts";
import { Fault, type Part, PARTS } from "./parts.ts";

/** Longer than any part takes; one that takes longer hangs. */
const HANG_MS = 30_000;
/** How soon everything must be as it was. */
const SETTLE_MS = 5_000;

/** Threads of the core that are there from the start to the end; all others come when they are needed. */
const LASTING = /^guestd-(superv|spawner|spooler|proc)/;
/** Threads of the core. */
const OF_CORE = /^(guestd-|connections$)/;

export class House implements AsyncDisposable {
  readonly daemon: Daemon;
  readonly #scratch: Scratch;
  readonly #guest = new Guest();
  #baseline = "";

  private constructor(daemon: Daemon, scratch: Scratch) {
    this.daemon = daemon;
    this.#scratch = scratch;
    void this.#guest.echo();
  }

  static async open(): Promise<House> {
    const scratch = new Scratch();
    for (const name of ["tmp", "spool", "work"]) Deno.mkdirSync(scratch.join(name));
    const env = {
      TMPDIR: scratch.join("tmp"),
      GUESTD_SPOOL_DIR: scratch.join("spool"),
      GUESTD_MAX_OUTPUT_BYTES: String(100 << 20),
      GUESTD_OUTPUT_LINGER_SECS: "1",
      GUESTD_KILL_GRACE_SECS: "1",
      GUESTD_STDIN_WRITE_TIMEOUT_SECS: "1",
    };
    return new House(await Daemon.bootstrapped({ env }), scratch);
  }

  /** Runs a part in a directory of its own. Throws what it throws, and {@link Fault} where it hangs. */
  async run(part: Part): Promise<void> {
    const dir = Deno.makeTempDirSync({ dir: this.#scratch.join("work") });
    try {
      const given = { daemon: this.daemon, dir, guest: this.#guest };
      await within(`the end of part ${part}`, PARTS[part](given), HANG_MS);
    } finally {
      Deno.removeSync(dir, { recursive: true });
    }
  }

  /** Ends what a part that broke off has left running: nothing may be known that was refused. */
  async tidy(): Promise<void> {
    for (const { exec_id } of await this.daemon.procs()) {
      const { phase } = await this.daemon.poll(exec_id);
      if (phase === "acked") continue;
      await this.daemon.kill(exec_id);
      await this.daemon.outcome(exec_id);
      await this.daemon.ack(exec_id);
    }
  }

  /** Remembers what the daemon has, for {@link settled}. */
  async remember(): Promise<void> {
    this.#baseline = await eventually("the daemon at rest", async () => {
      const before = this.#belongings();
      await new Promise((resolve) => setTimeout(resolve, 100));
      return before === this.#belongings() && !before.includes("child") && before;
    });
  }

  /** Throws unless the daemon lives, is healthy, and has soon what it had, neither more nor less. */
  async settled(): Promise<void> {
    const { bootstrapped, busy } = await this.daemon.health();
    if (!bootstrapped || busy) throw new Fault(`health says ${JSON.stringify({ bootstrapped, busy })}`);
    const same = (): boolean => this.#belongings() === this.#baseline;
    await eventually("nothing left behind", same, SETTLE_MS).catch(() => {
      throw new Fault(`was left: ${difference(this.#baseline, this.#belongings())}`);
    });
  }

  /** The threads that can be traced, by name. */
  threads(): Map<number, string> {
    const found = new Map<number, string>();
    for (const { name } of Deno.readDirSync(`/proc/${this.daemon.pid}/task`)) {
      try {
        const comm = Deno.readTextFileSync(`/proc/${this.daemon.pid}/task/${name}/comm`).trim();
        if (Number(name) === this.daemon.pid) found.set(Number(name), "main");
        else if (OF_CORE.test(comm)) found.set(Number(name), comm);
      } catch {
        // Ended since the listing.
      }
    }
    return found;
  }

  /** Descriptors, threads that last, children, and files in all places where it makes temporary ones; a line for each. */
  #belongings(): string {
    const { pid } = this.daemon;
    const lines = childrenOf(pid).map(({ comm, state }) => `child ${comm} ${state}`);
    for (const name of this.threads().values()) {
      if (LASTING.test(name)) lines.push(`thread ${name}`);
    }
    const open = openSockets();
    for (const { name } of Deno.readDirSync(`/proc/${pid}/fd`)) {
      try {
        const target = Deno.readLinkSync(`/proc/${pid}/fd/${name}`);
        // Connections of clients come and go; those that have ended and are still held do not show as open.
        const socket = /^socket:\[(\d+)\]$/.exec(target)?.[1];
        if (socket === undefined || !open.delete(socket)) {
          lines.push(`descriptor ${target.replace(/^(pipe|socket):.*/, "$1")}`);
        }
      } catch {
        // Closed since the listing.
      }
    }
    for (const place of ["tmp", "spool", "work"]) {
      for (const { name } of Deno.readDirSync(this.#scratch.join(place))) lines.push(`file ${name}`);
    }
    return lines.sort().join("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.daemon[Symbol.asyncDispose]();
    } finally {
      this.#guest[Symbol.dispose]();
      this.#scratch[Symbol.dispose]();
    }
  }
}

/** Inodes of TCP sockets of this machine that are connected or listen. */
function openSockets(): Set<string> {
  const lines = Deno.readTextFileSync("/proc/net/tcp").split("\n").slice(1);
  return new Set(lines.flatMap((line) => {
    const fields = line.trim().split(/\s+/);
    return fields[3] === "01" || fields[3] === "0A" ? [fields[9] ?? ""] : [];
  }));
}

function difference(before: string, after: string): string {
  const [had, has] = [before.split("\n"), after.split("\n")];
  const only = (of: string[], other: string[]): string[] => {
    const rest = [...other];
    return of.filter((line) => {
      const at = rest.indexOf(line);
      if (at !== -1) rest.splice(at, 1);
      return at === -1;
    });
  };
  const list = [...only(has, had).map((line) => `+ ${line}`), ...only(had, has).map((line) => `- ${line}`)];
  return list.join(", ");
}
