import { within } from "./await_event.ts";
import type { Daemon } from "./daemon.ts";

/** How many strangers dial at a time. */
const AT_ONCE = 40;

/** Connections that are closed at the end of the block, in whatever state they are. */
export class Strangers implements Disposable {
  readonly #connections: Deno.Conn[] = [];

  /** Each sends this, and stays. */
  async come(daemon: Daemon, count: number, sent: Uint8Array): Promise<void> {
    let left = count;
    const dial = async (): Promise<void> => {
      while (left-- > 0) {
        try {
          const connection = await Deno.connect({ hostname: "127.0.0.1", port: daemon.port });
          this.#connections.push(connection);
          if (sent.length > 0) await connection.write(sent);
        } catch {
          // Ended already, or refused for the moment in which accepting fails.
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, dial));
  }

  /** How many came, once the daemon has ended the connection of each. */
  async ended(): Promise<number> {
    const room = new Uint8Array(1024);
    const ends = this.#connections.map(async (connection) => {
      // A reset is an end, too.
      while (await connection.read(room).catch(() => null) !== null);
    });
    return (await within("the end of each", Promise.all(ends))).length;
  }

  [Symbol.dispose](): void {
    for (const connection of this.#connections) connection.close();
  }
}
