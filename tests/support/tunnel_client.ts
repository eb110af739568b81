/** The client's side of a tunnel: WebSocket frames written and read by hand, over a bare TCP connection. */

import { BareSocket } from "./bare_socket.ts";
import { concat } from "./bytes.ts";
import type { Daemon } from "./daemon.ts";
import { FIN, frame, OP } from "./frames.ts";
import { type Header, request } from "./raw_http.ts";

/** The sample key of the RFC, and what it is answered with. */
export const SAMPLE_KEY = "dGhlIHNhbXBsZSBub25jZQ==";
/** See {@link SAMPLE_KEY}. */
export const SAMPLE_ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/** What asks for an upgrade to a WebSocket. */
export const UPGRADE: readonly Header[] = [
  ["Connection", "Upgrade"],
  ["Upgrade", "websocket"],
  ["Sec-WebSocket-Version", "13"],
  ["Sec-WebSocket-Key", SAMPLE_KEY],
];

export interface Frame {
  readonly opcode: number;
  readonly payload: Uint8Array<ArrayBuffer>;
}

export interface Closed {
  readonly code: number;
  readonly reason: string;
}

/** A client of a tunnel. */
export class TunnelClient extends BareSocket {
  /** Connects and asks for a tunnel; `behind` goes out in one piece with the request. Reads no answer. */
  static async ask(
    daemon: Daemon,
    query: string,
    behind: Uint8Array = new Uint8Array(),
    headers: Readonly<Record<string, string>> = {},
  ): Promise<TunnelClient> {
    const client = new TunnelClient(await BareSocket.dial(daemon.port));
    const all: Record<string, string> = {
      ...Object.fromEntries(UPGRADE),
      ...(daemon.token === undefined ? {} : { "Authorization": `Bearer ${daemon.token}` }),
      ...headers,
    };
    const head = request("GET", `/v1/tcp${query}`, Object.entries(all));
    await client.send(concat([head, behind]));
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

  async say(payload: Uint8Array | string): Promise<void> {
    await this.send(frame(FIN | OP.binary, payload));
  }

  /** The head of the answer to the request, as text. */
  async head(): Promise<string> {
    return await this.through("\r\n\r\n");
  }

  /** The next frame; null at the end of the connection. */
  async frame(): Promise<Frame | null> {
    const begin = await this.whole(2);
    if (begin === null) return null;
    const [opcode = 0, short = 0] = begin;
    const long = await this.whole(short === 126 ? 2 : short === 127 ? 8 : 0);
    const length = long?.length ? Number(`0x${long.toHex()}`) : short;
    const payload = long && await this.whole(length);
    if (payload === null) return null;
    if ((opcode & 0x70) !== 0 || (opcode & FIN) === 0) {
      throw new Error(`Cannot read a frame that begins with ${opcode}`);
    }
    return { opcode: opcode & 0x0f, payload };
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
  override async bytes(size: number): Promise<Uint8Array<ArrayBuffer>> {
    const all = new Uint8Array(size);
    for (let at = 0; at < size;) {
      const payload = await this.message();
      if (at + payload.length > size) throw new Error("Cannot stop there: more came in one frame");
      all.set(payload, at);
      at += payload.length;
    }
    return all;
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
    await this.ending();
  }
}

export function closedBy({ payload }: Frame): Closed {
  const code = payload.length < 2 ? 1005 : new DataView(payload.buffer).getUint16(0);
  return { code, reason: new TextDecoder().decode(payload.subarray(2)) };
}
