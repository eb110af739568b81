/**
 * The guest's side of a tunnel: listeners on 127.0.0.1 and the connections that they take.
 *
 * @module
 */

import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { within } from "./await_event.ts";

/** A guest: something that listens on 127.0.0.1. */
export class Guest implements Disposable {
  readonly #listener: Deno.TcpListener;
  #accepted = 0;

  /** Listens on a free port. */
  constructor() {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  }

  /** Where it listens. */
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

  /** The next connection. */
  async accept(): Promise<GuestConnection> {
    const socket = await within("a dial", this.#listener.accept());
    this.#accepted++;
    return new GuestConnection(socket);
  }

  /** Sends back what comes, on every connection, until it is disposed of. */
  async echo(): Promise<void> {
    for await (const socket of this.#listener) {
      this.#accepted++;
      socket.setNoDelay(true);
      socket.readable.pipeTo(socket.writable).catch(() => {});
    }
  }

  /** Listens no more. */
  [Symbol.dispose](): void {
    try {
      this.#listener.close();
    } catch {
      // Already closed.
    }
  }
}

/** A guest whose one connection can be reset, without the end that closing says first. */
export class ResettingGuest implements AsyncDisposable {
  readonly #server = createServer();
  readonly #accepted = Promise.withResolvers<Socket>();

  private constructor() {
    this.#server.once("connection", (socket) => this.#accepted.resolve(socket));
  }

  /** Listens on a free port. */
  static async start(): Promise<ResettingGuest> {
    const guest = new ResettingGuest();
    guest.#server.listen(0, "127.0.0.1");
    await once(guest.#server, "listening");
    return guest;
  }

  /** Where it listens. */
  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  /** Sends text once there is a connection. */
  async send(text: string): Promise<void> {
    (await within("a dial", this.#accepted.promise)).write(text);
  }

  /** Resets the connection. */
  async reset(): Promise<void> {
    (await within("a dial", this.#accepted.promise)).resetAndDestroy();
  }

  /** Listens no more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    await once(this.#server, "close");
  }
}

/** The guest's end of a tunnel. */
export class GuestConnection implements Disposable {
  /** The bare connection. */
  readonly socket: Deno.TcpConn;

  /** Wraps an accepted connection. */
  constructor(socket: Deno.TcpConn) {
    this.socket = socket;
  }

  /** Sends all of it. */
  async send(data: Uint8Array | string): Promise<void> {
    let rest = typeof data === "string" ? new TextEncoder().encode(data) : data;
    while (rest.length > 0) rest = rest.subarray(await within("a read", this.socket.write(rest)));
  }

  /** Exactly so many bytes. */
  async bytes(size: number): Promise<Uint8Array> {
    const all = new Uint8Array(size);
    for (let at = 0; at < size;) {
      const count = await within("bytes at the guest", this.socket.read(all.subarray(at)));
      if (count === null) throw new Error(`Cannot read ${size} bytes: the end came after ${at}`);
      at += count;
    }
    return all;
  }

  /** Exactly so many bytes, as text. */
  async text(size: number): Promise<string> {
    return new TextDecoder().decode(await this.bytes(size));
  }

  /** How the client's stream ends: at once with nothing more, `end` or `reset`. */
  async ending(): Promise<"end" | "reset"> {
    const buffer = new Uint8Array(65536);
    try {
      const count = await within("the end at the guest", this.socket.read(buffer));
      if (count !== null) throw new Error(`Cannot see the end: ${count} bytes came instead`);
      return "end";
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionReset) return "reset";
      throw error;
    }
  }

  /** Closes. */
  [Symbol.dispose](): void {
    try {
      this.socket.close();
    } catch {
      // Already closed.
    }
  }
}
