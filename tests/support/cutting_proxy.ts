/** A way to a daemon that breaks: a TCP relay which ends connections after so many bytes of what the daemon sends. */

/** Invariant: `#open` holds both ends of every connection that is not over. */
export class CuttingProxy implements Disposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #target: number;
  readonly #open = new Set<Deno.TcpConn>();
  /** How many connections were made to it. */
  connections = 0;
  /** How many of them it cut. */
  cuts = 0;
  /** Each connection is cut behind as many bytes as this gives for its number; undefined lets it be. */
  cutAfter: (connection: number) => number | undefined = () => undefined;

  /** Leads to a port of 127.0.0.1. */
  constructor(target: number) {
    this.#target = target;
    void this.#serve();
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  /** Ends all connections at once. */
  cut(): void {
    this.cuts += this.#open.size / 2;
    for (const socket of this.#open) close(socket);
    this.#open.clear();
  }

  async #serve(): Promise<void> {
    for await (const client of this.#listener) void this.#relay(client, ++this.connections);
  }

  async #relay(client: Deno.TcpConn, number: number): Promise<void> {
    const daemon = await Deno.connect({ hostname: "127.0.0.1", port: this.#target });
    const ends = [client, daemon];
    for (const end of ends) this.#open.add(end);
    try {
      client.readable.pipeTo(daemon.writable).catch(() => {});
      let left = this.cutAfter(number) ?? Infinity;
      for await (const bytes of daemon.readable) {
        const passed = bytes.subarray(0, left);
        for (let at = 0; at < passed.length;) at += await client.write(passed.subarray(at));
        left -= passed.length;
        if (left > 0) continue;
        this.cuts++;
        break;
      }
    } catch {
      // One end is gone, and so is the other in a moment.
    }
    for (const end of ends) {
      this.#open.delete(end);
      close(end);
    }
  }

  /** Ends all connections and takes no more. */
  close(): void {
    close(this.#listener);
    this.cut();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function close(socket: Deno.TcpConn | Deno.TcpListener): void {
  try {
    socket.close();
  } catch {
    // Already closed.
  }
}
