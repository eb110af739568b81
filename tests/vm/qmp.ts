/** QEMU's machine protocol, as far as freezing and restoring a machine needs it. */

import { within } from "../support/await_event.ts";

/** One message: an answer to a command, or an event. */
interface Message {
  readonly return?: unknown;
  readonly error?: { readonly desc: string };
  readonly event?: string;
  readonly data?: { readonly status?: string; readonly device?: string };
}

/** How long writing or reading a machine's whole memory may take, in milliseconds. */
const MIGRATION_MS = 60_000;

/**
 * A connection to one machine.
 *
 * Invariant: `#messages` gives each message once, in order; one command is under way at a time.
 */
export class Qmp implements Disposable {
  readonly #connection: Deno.UnixConn;
  readonly #messages: AsyncIterator<Message>;

  private constructor(connection: Deno.UnixConn) {
    this.#connection = connection;
    this.#messages = messagesOf(connection);
  }

  /** Connects to the machine that listens on the socket at `path`. */
  static async open(path: string): Promise<Qmp> {
    const qmp = new Qmp(await Deno.connect({ transport: "unix", path }));
    await within("QEMU's greeting", qmp.#messages.next());
    await qmp.command("qmp_capabilities");
    const capabilities = [{ capability: "events", state: true }];
    await qmp.command("migrate-set-capabilities", { capabilities });
    await qmp.command("migrate-set-parameters", { "max-bandwidth": 4 * 1024 ** 3 });
    return qmp;
  }

  /** Gives a command and waits for its answer; throws with what QEMU says when it refuses. */
  async command(execute: string, args: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    const line = JSON.stringify({ execute, arguments: args }) + "\n";
    await this.#connection.write(new TextEncoder().encode(line));
    for (;;) {
      const message = await this.#next(`QEMU's answer to ${execute}`);
      if (message.error !== undefined) {
        throw new Error(`Cannot ${execute}: QEMU says ${message.error.desc}`);
      }
      if ("return" in message) return message.return;
    }
  }

  /** The port of 127.0.0.1 that is forwarded to the guest's port 9000. */
  async forwardedPort(): Promise<number> {
    const table = await this.command("human-monitor-command", { "command-line": "info usernet" });
    const port = /TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s/.exec(String(table))?.[1];
    if (port === undefined) throw new Error(`Cannot find the forwarded port in: ${table}`);
    return Number(port);
  }

  /** Takes a device out, as its guest's driver lets go of it. */
  async unplug(id: string): Promise<void> {
    await this.command("device_del", { id });
    for (;;) {
      const { event, data } = await this.#next(`the end of the device ${id}`);
      if (event === "DEVICE_DELETED" && data?.device === id) return;
    }
  }

  /** Stops the processors and writes the machine's memory and devices to a file. */
  async freeze(file: string): Promise<void> {
    await this.command("stop");
    await this.command("migrate", { uri: `exec:cat >'${file}'` });
    await this.#migrated();
  }

  /** Reads what `freeze` has written, into a machine that was started for it, and lets it go on. */
  async restore(file: string): Promise<void> {
    await this.command("migrate-incoming", { uri: `exec:cat '${file}'` });
    await this.#migrated();
    await this.command("cont");
  }

  async #migrated(): Promise<void> {
    for (;;) {
      const { event, data } = await this.#next("the end of the migration");
      if (event !== "MIGRATION") continue;
      if (data?.status === "completed") return;
      if (data?.status === "failed") throw new Error("Cannot migrate: QEMU says it has failed");
    }
  }

  async #next(what: string): Promise<Message> {
    const { done, value } = await within(what, this.#messages.next(), MIGRATION_MS);
    if (done) throw new Error(`Cannot see ${what}: QEMU has closed the connection`);
    return value;
  }

  /** Closes the connection; the machine goes on. */
  [Symbol.dispose](): void {
    try {
      this.#connection.close();
    } catch {
      // QEMU has ended, and with it the connection.
    }
  }
}

async function* messagesOf(connection: Deno.UnixConn): AsyncGenerator<Message> {
  let rest = "";
  const decoder = new TextDecoder();
  const chunk = new Uint8Array(16 * 1024);
  for (;;) {
    const count = await connection.read(chunk).catch(() => null);
    if (count === null) return;
    const lines = (rest + decoder.decode(chunk.subarray(0, count), { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) yield JSON.parse(line) as Message;
  }
}
