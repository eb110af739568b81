/** The guest's side of a tunnel: listeners on 127.0.0.1 and the connections that they take. */

import { within } from "./await_event.ts";
import { BareSocket } from "./bare_socket.ts";

/** A guest: something that listens on 127.0.0.1. */
export class Guest implements Disposable {
  readonly #listener: Deno.TcpListener;
  #accepted = 0;

  constructor() {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  /** How many connections were made to it, those that nobody has accepted yet included. */
  get dials(): number {
    const local = `0100007F:${this.port.toString(16).toUpperCase().padStart(4, "0")}`;
    for (const line of Deno.readTextFileSync("/proc/net/tcp").split("\n")) {
      const [, address, , state, queues = ""] = line.trim().split(/\s+/);
      // Of a listener the second queue counts connections.
      if (address === local && state === "0A") {
        return this.#accepted + parseInt(queues.split(":")[1] ?? "", 16);
      }
    }
    throw new Error("Cannot count the dials: the kernel does not tell of the listener");
  }

  async accept(): Promise<BareSocket> {
    const socket = await within("a dial", this.#listener.accept());
    this.#accepted++;
    return new BareSocket(socket);
  }

  /** Sends back what comes, on every connection, until it is disposed of. */
  async echo(): Promise<void> {
    for await (const socket of this.#listener) {
      this.#accepted++;
      socket.setNoDelay(true);
      socket.readable.pipeTo(socket.writable).catch(() => {});
    }
  }

  [Symbol.dispose](): void {
    try {
      this.#listener.close();
    } catch {
      // Already closed.
    }
  }
}
