/**
 * The client's side of a tunnel: WebSocket frames written and read by hand, over a bare TCP connection.
 *
 * @module
 */

import { within } from "./await_event.ts";
import type { Daemon } from "./daemon.ts";
import { FIN, frame, OP } from "./frames.ts";

/** The sample key of the RFC, and what it is answered with. */
export const SAMPLE_KEY = "dGhlIHNhbXBsZSBub25jZQ==";
/** See {@link SAMPLE_KEY}. */
export const SAMPLE_ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

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
 * A client. Invariant: `#buffer` from `#start` to `#end` holds the bytes that arrived and no frame has claimed yet.
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
