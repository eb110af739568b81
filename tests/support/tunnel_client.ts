/**
 * A tunnel's two ends for tests: a caller that writes and reads WebSocket frames by hand, over a bare TCP connection,
 * and a guest, which is a listener on 127.0.0.1.
 *
 * @module
 */

import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { within } from "./await_event.ts";
import type { Daemon } from "./daemon.ts";

/** Opcodes and flags of section 5.2 of RFC 6455. */
export const OP = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
/** The bit that ends a message. */
export const FIN = 0x80;

/** The sample key of the RFC, and what it is answered with. */
export const SAMPLE_KEY = "dGhlIHNhbXBsZSBub25jZQ==";
/** See {@link SAMPLE_KEY}. */
export const SAMPLE_ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

const KEY = [0x37, 0xfa, 0x21, 0x3d] as const;

/** A masked frame. `first` is the opcode with its flags; `length` may lie about the payload's. */
export function frame(
  first: number,
  payload: Uint8Array | string = new Uint8Array(),
  options: { readonly length?: bigint; readonly masked?: boolean } = {},
): Uint8Array<ArrayBuffer> {
  const bytes = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
  const length = options.length ?? BigInt(bytes.length);
  const masked = options.masked ?? true;
  const size = length < 126n ? 0 : length < 65536n ? 2 : 8;
  const head = new Uint8Array(2 + size + (masked ? 4 : 0));
  const view = new DataView(head.buffer);
  head[0] = first;
  head[1] = (masked ? 0x80 : 0) | (size === 0 ? Number(length) : size === 2 ? 126 : 127);
  if (size === 2) view.setUint16(2, Number(length));
  if (size === 8) view.setBigUint64(2, length);
  if (masked) head.set(KEY, 2 + size);
  const whole = new Uint8Array(head.length + bytes.length);
  whole.set(head);
  whole.set(bytes, head.length);
  if (masked) {
    for (let at = 0; at < bytes.length; at++) {
      whole[head.length + at] = (bytes[at] ?? 0) ^ (KEY[at & 3] ?? 0);
    }
  }
  return whole;
}

/** A close frame. */
export function closing(code: number, reason = ""): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(reason);
  return frame(FIN | OP.close, new Uint8Array([code >> 8, code & 0xff, ...text]));
}

/** A frame as the daemon sent it. */
export interface Frame {
  readonly opcode: number;
  readonly payload: Uint8Array<ArrayBuffer>;
}

/** What a close frame says. */
export interface Closed {
  readonly code: number;
  readonly reason: string;
}

/**
 * A caller. Invariant: `#buffer` from `#start` to `#end` holds the bytes that arrived and no frame has claimed yet.
 */
export class TunnelClient implements Disposable {
  /** The bare connection. */
  readonly socket: Deno.TcpConn;
  #buffer = new Uint8Array(64 * 1024);
  #start = 0;
  #end = 0;

  private constructor(socket: Deno.TcpConn) {
    this.socket = socket;
    socket.setNoDelay(true);
  }

  /** Connects and asks for a tunnel; `behind` goes out in one piece with the request. Reads no answer. */
  static async ask(
    daemon: Daemon,
    query: string,
    behind: Uint8Array = new Uint8Array(),
    headers: Readonly<Record<string, string>> = {},
  ): Promise<TunnelClient> {
    const socket = await Deno.connect({ hostname: "127.0.0.1", port: daemon.port });
    const client = new TunnelClient(socket);
    const all: Record<string, string> = {
      "Host": "127.0.0.1",
      "Connection": "Upgrade",
      "Upgrade": "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": SAMPLE_KEY,
      ...(daemon.token === undefined ? {} : { "Authorization": `Bearer ${daemon.token}` }),
      ...headers,
    };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const head = new TextEncoder().encode(`GET /v1/tcp${query} HTTP/1.1\r\n${lines}\r\n`);
    const request = new Uint8Array(head.length + behind.length);
    request.set(head);
    request.set(behind, head.length);
    await client.send(request);
    return client;
  }

  /** A tunnel whose upgrade was answered with 101. */
  static async open(
    daemon: Daemon,
    query: string,
    behind: Uint8Array = new Uint8Array(),
  ): Promise<TunnelClient> {
    const client = await TunnelClient.ask(daemon, query, behind);
    const head = await client.head();
    if (!head.startsWith("HTTP/1.1 101 ")) {
      client[Symbol.dispose]();
      throw new Error(`Cannot open a tunnel: ${head}`);
    }
    return client;
  }

  /** Sends bytes as they are. */
  async send(...pieces: readonly Uint8Array[]): Promise<void> {
    for (let rest of pieces) {
      while (rest.length > 0) {
        rest = rest.subarray(await within("the daemon to read", this.socket.write(rest)));
      }
    }
  }

  /** Sends one binary message. */
  async say(payload: Uint8Array | string): Promise<void> {
    await this.send(frame(FIN | OP.binary, payload));
  }

  /** The head of the answer to the request, as text. */
  async head(): Promise<string> {
    for (;;) {
      const text = new TextDecoder().decode(this.#buffer.subarray(this.#start, this.#end));
      const at = text.indexOf("\r\n\r\n");
      if (at !== -1) {
        this.#start += at + 4;
        return text.slice(0, at + 4);
      }
      if (!await this.#more()) throw new Error("Cannot read the answer: the daemon closed");
    }
  }

  /** The next frame; null at the end of the connection. */
  async frame(): Promise<Frame | null> {
    while (this.#end - this.#start < 2) if (!await this.#more()) return null;
    const short = (this.#buffer[this.#start + 1] ?? 0) & 0x7f;
    const size = short === 126 ? 2 : short === 127 ? 8 : 0;
    while (this.#end - this.#start < 2 + size) if (!await this.#more()) return null;
    const view = new DataView(this.#buffer.buffer, this.#start);
    const opcode = view.getUint8(0);
    const length = size === 0
      ? short
      : size === 2
      ? view.getUint16(2)
      : Number(view.getBigUint64(2));
    while (this.#end - this.#start < 2 + size + length) if (!await this.#more()) return null;
    const from = this.#start + 2 + size;
    this.#start = from + length;
    if ((opcode & 0x70) !== 0 || (opcode & FIN) === 0) {
      throw new Error(`Cannot read a frame that begins with ${opcode}`);
    }
    return { opcode: opcode & 0x0f, payload: this.#buffer.slice(from, from + length) };
  }

  /** The payload of the next message, which must be binary. */
  async message(): Promise<Uint8Array<ArrayBuffer>> {
    const next = await this.frame();
    if (next?.opcode !== OP.binary) {
      const said = next?.opcode === OP.close ? JSON.stringify(closedBy(next)) : next?.opcode;
      throw new Error(`Cannot read a message: got ${said ?? "the end"}`);
    }
    return next.payload;
  }

  /** Exactly so many relayed bytes, of as many frames as it takes. */
  async bytes(size: number): Promise<Uint8Array<ArrayBuffer>> {
    const all = new Uint8Array(size);
    for (let at = 0; at < size;) {
      const payload = await this.message();
      if (at + payload.length > size) throw new Error("Cannot stop there: more came in one frame");
      all.set(payload, at);
      at += payload.length;
    }
    return all;
  }

  /** The next relayed bytes as text. */
  async text(size: number): Promise<string> {
    return new TextDecoder().decode(await this.bytes(size));
  }

  /** Waits for the close frame, passing over nothing, answers it and waits for the connection's end. */
  async closed(): Promise<Closed> {
    const next = await this.frame();
    if (next?.opcode !== OP.close) throw new Error(`Cannot see a close: got ${next?.opcode}`);
    const closed = closedBy(next);
    await this.send(frame(FIN | OP.close, next.payload)).catch(() => {});
    await this.ended();
    return closed;
  }

  /** Waits for the end of the connection; throws if anything else comes first. */
  async ended(): Promise<void> {
    const next = await this.frame();
    if (next !== null) {
      throw new Error(`Cannot see the end: got a frame with opcode ${next.opcode}`);
    }
  }

  /** Closes without a word. */
  [Symbol.dispose](): void {
    try {
      this.socket.close();
    } catch {
      // Already closed.
    }
  }

  async #more(): Promise<boolean> {
    if (this.#start > 0 && this.#start === this.#end) this.#start = this.#end = 0;
    if (this.#end === this.#buffer.length) {
      const live = this.#buffer.subarray(this.#start, this.#end);
      const larger = live.length > this.#buffer.length / 2
        ? new Uint8Array(this.#buffer.length * 2)
        : this.#buffer;
      larger.set(live);
      this.#buffer = larger;
      this.#end = live.length;
      this.#start = 0;
    }
    const read = this.socket.read(this.#buffer.subarray(this.#end)).catch(endOfReset);
    const count = await within("more bytes of the tunnel", read);
    this.#end += count ?? 0;
    return count !== null;
  }
}

/** What a close frame says. */
export function closedBy({ payload }: Frame): Closed {
  const code = payload.length < 2 ? 1005 : new DataView(payload.buffer).getUint16(0);
  return { code, reason: new TextDecoder().decode(payload.subarray(2)) };
}

function endOfReset(error: unknown): null {
  if (error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.BrokenPipe) {
    return null;
  }
  throw error;
}

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

  /** How the caller's stream ends: at once with nothing more, `end` or `reset`. */
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
