/** The transport of every runtime: `fetch` and `WebSocket`. */

import { ConnectionLost, GuestError, TunnelClosed, Unreachable } from "./errors.ts";
import { pause } from "./retry.ts";
import type { Close, MessageSocket, Transport, TransportRequest } from "./transport.ts";

/** What of a tunnel may wait for its reader, in bytes, before the tunnel is given up. */
const MAX_UNREAD_BYTES = 64 * 1024 * 1024;
/** What may wait to be sent, in bytes, before `send` waits. */
const MAX_UNSENT_BYTES = 1024 * 1024;

/** How Deno, Node and Bun take headers, which browsers do not. */
type HeadedWebSocket = new (
  url: string,
  options: { readonly headers: Readonly<Record<string, string>> },
) => WebSocket;

/** How a {@link FetchTransport} goes its way. */
export interface FetchOptions {
  /** Sends requests in place of the runtime's `fetch`, say through a proxy; tunnels do not go through it. */
  readonly fetch?: typeof fetch;
}

/**
 * Requests by `fetch`, tunnels by `WebSocket`. Both directions of requests wait for each other; a `WebSocket`'s incoming
 * side cannot: what its reader has not taken is kept, and past 64 MiB the tunnel ends with an error. Browsers cannot
 * send a token with a `WebSocket`, so that tunnels do not work there.
 */
export class FetchTransport implements Transport {
  readonly #fetch: typeof fetch;

  /** Makes one; nothing is connected. */
  constructor({ fetch = globalThis.fetch }: FetchOptions = {}) {
    this.#fetch = fetch;
  }

  /** Sends a request by `fetch`. Rejects with `Unreachable`, `ConnectionLost` or the signal's reason. */
  async request(url: string, request: TransportRequest): Promise<Response> {
    const { method, headers, body, size, signal } = request;
    const length = size === undefined ? {} : { "content-length": String(size) };
    try {
      return await this.#fetch.call(undefined, url, {
        method,
        headers: { ...headers, ...length },
        redirect: "manual",
        ...(body === undefined ? {} : { body }),
        ...(body instanceof ReadableStream ? { duplex: "half" } : {}),
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (cause) {
      signal?.throwIfAborted();
      throw wayError(url, cause);
    }
  }

  /** Opens a `WebSocket`. Rejects with `ConnectionLost`, for no runtime tells what was answered instead. */
  async connect(
    url: string,
    { headers, signal }: Pick<TransportRequest, "headers" | "signal">,
  ): Promise<MessageSocket> {
    signal?.throwIfAborted();
    const Headed = WebSocket as unknown as HeadedWebSocket;
    const socket = new Headed(url.replace(/^http/, "ws"), { headers });
    const messages = new WebSocketMessages(socket);
    const aborted = (): void => messages.abort();
    signal?.addEventListener("abort", aborted, { once: true });
    try {
      await messages.opened;
      return messages;
    } catch (cause) {
      signal?.throwIfAborted();
      throw wayError(url, cause);
    } finally {
      signal?.removeEventListener("abort", aborted);
    }
  }

  /** Nothing: the runtime ends its kept connections itself. */
  close(): void {}
}

/**
 * Messages of a runtime's `WebSocket`. Invariant: `#unread` holds what came and was not received, `#unreadBytes` their
 * size; while somebody waits in `#wanting` it is empty.
 */
class WebSocketMessages implements MessageSocket {
  readonly opened: Promise<void>;
  readonly closed: Promise<Close>;
  readonly #socket: WebSocket;
  #unread: Uint8Array[] = [];
  #unreadBytes = 0;
  #wanting: ((message: Uint8Array | null) => void) | undefined;
  #over: Close | undefined;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    const opened = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<Close>();
    opened.promise.catch(() => {});
    this.opened = opened.promise;
    this.closed = closed.promise;
    socket.onopen = () => opened.resolve();
    socket.onerror = (event) => {
      opened.reject((event as { readonly error?: unknown }).error ?? event);
    };
    socket.onmessage = ({ data }) => this.#take(asBytes(data));
    socket.onclose = ({ code, reason }) => {
      this.#over ??= { code, reason };
      opened.reject(new TunnelClosed(code, reason));
      closed.resolve(this.#over);
      this.#wanting?.(null);
      this.#wanting = undefined;
    };
  }

  async send(message: Uint8Array): Promise<void> {
    this.#checkOpen();
    this.#socket.send(message as Uint8Array<ArrayBuffer>);
    for (let ms = 0; this.#socket.bufferedAmount > MAX_UNSENT_BYTES; ms = Math.min(ms + 1, 20)) {
      await pause(ms);
      this.#checkOpen();
    }
  }

  receive(): Promise<Uint8Array | null> {
    const next = this.#unread.shift();
    this.#unreadBytes -= next?.length ?? 0;
    if (next !== undefined) return Promise.resolve(next);
    if (this.#over !== undefined) return Promise.resolve(null);
    return new Promise((resolve) => this.#wanting = resolve);
  }

  close(code = 1000): void {
    this.#socket.close(code);
  }

  abort(): void {
    this.#over ??= { code: 1006, reason: "aborted" };
    this.#unread = [];
    this.#socket.close();
    this.#wanting?.(null);
    this.#wanting = undefined;
  }

  #take(message: Uint8Array): void {
    if (this.#over !== undefined) return;
    if (this.#wanting !== undefined) {
      this.#wanting(message);
      this.#wanting = undefined;
      return;
    }
    this.#unread.push(message);
    this.#unreadBytes += message.length;
    if (this.#unreadBytes <= MAX_UNREAD_BYTES) return;
    this.#over = {
      code: 1006,
      reason: `more than ${MAX_UNREAD_BYTES} bytes wait for their reader`,
    };
    this.#socket.close();
  }

  #checkOpen(): void {
    if (this.#over !== undefined) throw new TunnelClosed(this.#over.code, this.#over.reason);
    if (this.#socket.readyState !== WebSocket.OPEN) throw new TunnelClosed(1006, "");
  }
}

function asBytes(data: unknown): Uint8Array {
  return typeof data === "string"
    ? new TextEncoder().encode(data)
    : new Uint8Array(data as ArrayBuffer);
}

/** The error of a way that failed. What runtimes say of a guest that is not there has no common form. */
export function wayError(url: string, cause: unknown): GuestError {
  if (cause instanceof GuestError) return cause;
  const said = wordsOf(cause);
  const place = new URL(url).host;
  return /refused|ENOTFOUND|EAI_AGAIN|lookup|dns|unreachable|ENOENT|no such file/i.test(said)
    ? new Unreachable(`Cannot reach ${place}: nobody answers there`, { cause })
    : new ConnectionLost(`Cannot go on with ${place}: the connection failed`, { cause });
}

/** Messages and codes of an error and of what caused it. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String((error as { message?: unknown } | null)?.message);
  const { code } = error as { readonly code?: unknown };
  return `${code} ${error.message} ${error.cause === undefined ? "" : wordsOf(error.cause)}`;
}
