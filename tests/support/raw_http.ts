/**
 * HTTP/1.1 over a bare TCP connection, for what no proper client would send or show: broken requests, several on one
 * connection, header bytes outside ASCII, duplicate headers, a peer that stops in mid-body.
 */

import { BareSocket } from "./bare_socket.ts";
import { concat, latin1 } from "./bytes.ts";

/** Status line and headers, as they came. */
export interface RawHead {
  readonly status: number;
  readonly headers: readonly Header[];
}

export interface RawResponse extends RawHead {
  readonly body: Uint8Array;
}

/** Values of a header in the order of the wire; names compare without case. */
export function headerValues(head: RawHead, name: string): string[] {
  const named = head.headers.filter(([key]) => key.toLowerCase() === name.toLowerCase());
  return named.map(([, value]) => value);
}

/** The only value of a header; undefined without one, throws for several. */
export function header(head: RawHead, name: string): string | undefined {
  const values = headerValues(head, name);
  if (values.length > 1) {
    throw new Error(`Cannot choose a ${name} header: there are ${values.length}`);
  }
  return values[0];
}

export function bodyText(response: RawResponse): string {
  return new TextDecoder().decode(response.body);
}

export type Header = readonly [name: string, value: string];

/** How a body is framed: in chunks, or with its size. */
export const CHUNKED: Header = ["Transfer-Encoding", "chunked"];
/** See {@link CHUNKED}. */
export const sized = (bytes: number): Header => ["Content-Length", String(bytes)];

/** Builds a request: HTTP/1.1, `Host` and, with a body, `Content-Length` are added unless they are given. */
export function request(
  method: string,
  target: string,
  headers: readonly Header[] = [],
  body: string | Uint8Array = new Uint8Array(),
): Uint8Array {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const names = new Set(headers.map(([name]) => name.toLowerCase()));
  const lines = [...headers];
  if (!names.has("host")) lines.unshift(["Host", "127.0.0.1"]);
  if (bytes.length > 0 && !names.has("content-length") && !names.has("transfer-encoding")) {
    lines.push(["Content-Length", String(bytes.length)]);
  }
  const head = latin1(
    `${method} ${target} HTTP/1.1\r\n${
      lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")
    }\r\n`,
  );
  return concat([head, bytes]);
}

/** A client's connection. */
export class RawConnection extends BareSocket {
  static async open(port: number): Promise<RawConnection> {
    return new RawConnection(await BareSocket.dial(port));
  }

  /** Says that nothing more will be sent, and goes on reading. */
  async finish(): Promise<void> {
    await this.socket.closeWrite();
  }

  /** The next answer with its whole body. `method` tells that an answer to HEAD has none. */
  async response(method = "GET"): Promise<RawResponse> {
    const head = await this.head();
    return { ...head, body: concat(await Array.fromAsync(this.body(head, method))) };
  }

  /** Sends one request and reads its answer. */
  async ask(...parts: Parameters<typeof request>): Promise<RawResponse> {
    await this.send(request(...parts));
    return await this.response(parts[0]);
  }

  /** The next answer's head; interim (1xx) ones but 101 are passed over. */
  async head(): Promise<RawHead> {
    for (;;) {
      const text = await this.through("\r\n\r\n");
      const [statusLine = "", ...lines] = text.slice(0, -4).split("\r\n");
      const status = Number(/^HTTP\/1\.1 ([0-9]{3})( |$)/.exec(statusLine)?.[1]);
      if (!(status >= 100)) {
        throw new Error(`Cannot read an answer: it begins with ${JSON.stringify(statusLine)}`);
      }
      if (status < 200 && status !== 101) continue;
      const headers = lines.map((line): [string, string] => {
        const colon = line.indexOf(":");
        return [line.slice(0, colon), line.slice(colon + 1).trim()];
      });
      return { status, headers };
    }
  }

  /** The pieces of the body that belongs to `head`, as they arrive; throws when it is cut short. */
  async *body(head: RawHead, method = "GET"): AsyncGenerator<Uint8Array> {
    if (method === "HEAD" || head.status === 204 || head.status === 304) return;
    const length = header(head, "content-length");
    if (header(head, "transfer-encoding") === "chunked") {
      for (;;) {
        const size = parseInt(await this.through("\r\n"), 16);
        if (Number.isNaN(size)) throw new Error("Cannot read a chunked body: a chunk has no size");
        if (size > 0) yield await this.bytes(size);
        if ((await this.through("\r\n")) !== "\r\n") {
          throw new Error("Cannot read a chunked body: a chunk is too long");
        }
        if (size === 0) return;
      }
    } else if (length !== undefined) {
      if (Number(length) > 0) yield await this.bytes(Number(length));
    } else {
      for (let piece = await this.more(); piece.length > 0; piece = await this.more()) yield piece;
      if (await this.ending() === "reset") {
        throw new Error("Cannot read the body: the peer reset the connection");
      }
    }
  }

  /** Waits for the peer's end and throws if anything else comes first. A reset counts as an end. */
  async closedByPeer(): Promise<void> {
    await this.ending();
  }
}
