/**
 * HTTP/1.1 over a bare TCP connection, for what no proper client would send or show: broken requests, several on one
 * connection, header bytes outside ASCII, duplicate headers, a peer that stops in mid-body.
 *
 * @module
 */

import { within } from "./await_event.ts";

/** Status line and headers, as they came. */
export interface RawHead {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** A whole answer. */
export interface RawResponse extends RawHead {
  readonly body: Uint8Array;
}

/** Values of a header in the order of the wire; names compare without case. */
export function headerValues(head: RawHead, name: string): string[] {
  return head.headers.flatMap((
    [key, value],
  ) => (key.toLowerCase() === name.toLowerCase() ? [value] : []));
}

/** The only value of a header; undefined without one, throws for several. */
export function header(head: RawHead, name: string): string | undefined {
  const values = headerValues(head, name);
  if (values.length > 1) {
    throw new Error(`Cannot choose a ${name} header: there are ${values.length}`);
  }
  return values[0];
}

/** The body as text. */
export function bodyText(response: RawResponse): string {
  return new TextDecoder().decode(response.body);
}

/** One char a byte, as headers are on the wire. */
export function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}

/** Builds a request: HTTP/1.1, `Host` and, with a body, `Content-Length` are added unless they are given. */
export function request(
  method: string,
  target: string,
  headers: readonly (readonly [string, string])[] = [],
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
  const whole = new Uint8Array(head.length + bytes.length);
  whole.set(head);
  whole.set(bytes, head.length);
  return whole;
}

/**
 * A connection. Invariant: `#buffer` holds the bytes that arrived and no answer has claimed yet; after the peer's end
 * `#ended` is true and no more arrive.
 */
export class RawConnection implements Disposable {
  readonly #socket: Deno.TcpConn;
  #buffer = new Uint8Array();
  #ended = false;
  #reset = false;

  private constructor(socket: Deno.TcpConn) {
    this.#socket = socket;
  }

  /** Connects to 127.0.0.1. */
  static async open(port: number): Promise<RawConnection> {
    const socket = await Deno.connect({ hostname: "127.0.0.1", port });
    socket.setNoDelay(true);
    return new RawConnection(socket);
  }

  /** Sends bytes, or a string of one char a byte; the peer may take `patienceMs` to read on. */
  async send(data: string | Uint8Array, patienceMs?: number): Promise<void> {
    let rest = typeof data === "string" ? latin1(data) : data;
    while (rest.length > 0) {
      rest = rest.subarray(await within("the peer to read", this.#socket.write(rest), patienceMs));
    }
  }

  /** Says that nothing more will be sent, and goes on reading. */
  async finish(): Promise<void> {
    await this.#socket.closeWrite();
  }

  /** The next answer with its whole body. `method` tells that an answer to HEAD has none. */
  async response(method = "GET"): Promise<RawResponse> {
    const head = await this.head();
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.body(head, method)) chunks.push(chunk);
    return {
      ...head,
      body: new Uint8Array(await new Blob(chunks as Uint8Array<ArrayBuffer>[]).arrayBuffer()),
    };
  }

  /** Sends one request and reads its answer. */
  async ask(...parts: Parameters<typeof request>): Promise<RawResponse> {
    await this.send(request(...parts));
    return await this.response(parts[0]);
  }

  /** The next answer's head; interim (1xx) ones but 101 are passed over. */
  async head(): Promise<RawHead> {
    for (;;) {
      const text = await this.#through("\r\n\r\n");
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
        const size = parseInt(await this.#through("\r\n"), 16);
        if (Number.isNaN(size)) throw new Error("Cannot read a chunked body: a chunk has no size");
        if (size > 0) yield await this.#exactly(size);
        if ((await this.#through("\r\n")) !== "\r\n") {
          throw new Error("Cannot read a chunked body: a chunk is too long");
        }
        if (size === 0) return;
      }
    } else if (length !== undefined) {
      if (Number(length) > 0) yield await this.#exactly(Number(length));
    } else {
      for (let piece = await this.more(); piece.length > 0; piece = await this.more()) yield piece;
      if (this.#reset) throw new Error("Cannot read the body: the peer reset the connection");
    }
  }

  /** Waits until something has arrived that was not asked for so far, or the peer's end. */
  async arrival(patienceMs?: number): Promise<void> {
    if (this.#buffer.length === 0) await this.#more(patienceMs);
  }

  /** Bytes that arrived after what was asked for so far, waiting for at least one; empty at the end. */
  async more(): Promise<Uint8Array> {
    if (this.#buffer.length === 0) await this.#more();
    return this.#claim(this.#buffer.length);
  }

  /** Waits for the peer's end and throws if anything else comes first. A reset counts as an end. */
  async closedByPeer(): Promise<void> {
    const stray = await this.more();
    if (stray.length > 0) throw new Error(`Cannot see the end: ${stray.length} bytes came instead`);
  }

  /** Closes without a word, in mid-request or mid-answer if need be. */
  [Symbol.dispose](): void {
    try {
      this.#socket.close();
    } catch {
      // Already closed.
    }
  }

  /** Reads once; false at the end. */
  async #more(patienceMs?: number): Promise<boolean> {
    if (this.#ended) return false;
    const piece = new Uint8Array(65536);
    const size = await within(
      "more bytes",
      this.#socket.read(piece).catch((error: unknown) => {
        this.#reset = true;
        return endOfReset(error);
      }),
      patienceMs,
    );
    if (size === null) {
      this.#ended = true;
      return false;
    }
    const joined = new Uint8Array(this.#buffer.length + size);
    joined.set(this.#buffer);
    joined.set(piece.subarray(0, size), this.#buffer.length);
    this.#buffer = joined;
    return true;
  }

  /** Everything up to and with `end`, one char a byte. */
  async #through(end: string): Promise<string> {
    const wanted = latin1(end);
    for (;;) {
      const at = indexOf(this.#buffer, wanted);
      if (at !== -1) return asLatin1(this.#claim(at + wanted.length));
      if (!await this.#more()) {
        throw new Error(
          `Cannot read on: the peer closed after ${JSON.stringify(asLatin1(this.#buffer))}`,
        );
      }
    }
  }

  async #exactly(size: number): Promise<Uint8Array> {
    while (this.#buffer.length < size) {
      if (!await this.#more()) {
        throw new Error(
          `Cannot read the body: the peer closed ${
            size - this.#buffer.length
          } bytes before its end`,
        );
      }
    }
    return this.#claim(size);
  }

  #claim(size: number): Uint8Array {
    const claimed = this.#buffer.subarray(0, size);
    this.#buffer = this.#buffer.subarray(size);
    return claimed;
  }
}

// TextDecoder's latin-1 is windows-1252, which maps some bytes elsewhere.
function asLatin1(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

function indexOf(bytes: Uint8Array, wanted: Uint8Array): number {
  const [first = 0] = wanted;
  let at = bytes.indexOf(first);
  while (at !== -1 && !wanted.every((byte, index) => bytes[at + index] === byte)) {
    at = bytes.indexOf(first, at + 1);
  }
  return at;
}

function endOfReset(error: unknown): null {
  if (error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.BrokenPipe) {
    return null;
  }
  throw error;
}
