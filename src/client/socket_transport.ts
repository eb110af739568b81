/** The transport of Deno, Node and Bun: connections of their own, over TCP, TLS, a Unix socket or vsock. */

import type { Agent as HttpAgent, ClientRequest, IncomingMessage, RequestOptions } from "node:http";
import type { Duplex } from "node:stream";
import { wayError } from "./fetch_transport.ts";
import { SocketMessages } from "./socket_messages.ts";
import type { MessageSocket, Transport, TransportRequest } from "./transport.ts";
import type { VsockAddress } from "./vsock.ts";
import { dial } from "./vsock_dial.ts";

/** Where connections lead. */
export interface SocketOptions {
  /** A Unix socket to connect to, whatever host the URL names. */
  readonly path?: string;
  /** A guest's vsock to connect to, whatever host the URL names. */
  readonly vsock?: VsockAddress;
}

/** A tunnel that is not upgraded, or is. */
type Upgrade = { readonly response: IncomingMessage } | {
  readonly socket: Duplex;
  readonly head: Uint8Array;
};

/**
 * Requests and tunnels over sockets, by `node:http`. Both directions of both wait for each other: nothing is buffered
 * beyond what a socket takes and one message of a tunnel. Connections are kept for later requests until `close`.
 */
export class SocketTransport implements Transport {
  readonly #socketPath: string | undefined;
  readonly #vsock: VsockAddress | undefined;
  readonly #agents = new Map<string, HttpAgent>();

  /** Makes one; nothing is connected. */
  constructor({ path, vsock }: SocketOptions = {}) {
    this.#socketPath = path;
    this.#vsock = vsock;
  }

  /** Sends a request. Rejects with `Unreachable`, `ConnectionLost` or the signal's reason. */
  async request(
    url: string,
    { method, headers, body, size, signal }: TransportRequest,
  ): Promise<Response> {
    const length = body instanceof Uint8Array ? body.length : size;
    const sized = length === undefined ? {} : { "content-length": String(length) };
    const request = await this.#begin(url, { method, headers: { ...headers, ...sized } }, signal);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    request.once("response", resolve);
    request.once("error", reject);
    const aborted = (): void => void request.destroy(signal?.reason);
    signal?.addEventListener("abort", aborted, { once: true });
    try {
      if (signal?.aborted) aborted();
      // The answer may come before the body has gone, and is then all that counts.
      if (body instanceof ReadableStream) pour(body, request).catch(reject);
      else request.end(body);
      return asResponse(await promise, () => signal?.removeEventListener("abort", aborted));
    } catch (cause) {
      request.destroy();
      signal?.removeEventListener("abort", aborted);
      signal?.throwIfAborted();
      throw wayError(url, cause);
    }
  }

  /** Upgrades to a WebSocket, or gives the answer that came instead. */
  async connect(
    url: string,
    { headers, signal }: Pick<TransportRequest, "headers" | "signal">,
  ): Promise<MessageSocket | Response> {
    signal?.throwIfAborted();
    const key = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(16))));
    const upgrade = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": key,
    };
    const request = await this.#begin(
      url,
      {
        method: "GET",
        headers: { ...headers, ...upgrade },
      },
      signal,
      false,
    );
    const { promise, resolve, reject } = Promise.withResolvers<Upgrade>();
    request.once("upgrade", (_response, socket, head) => resolve({ socket, head }));
    request.once("response", (response) => resolve({ response }));
    request.once("error", reject);
    const aborted = (): void => void request.destroy(signal?.reason);
    signal?.addEventListener("abort", aborted, { once: true });
    try {
      request.end();
      const answered = await promise;
      if ("response" in answered) return asResponse(answered.response);
      return new SocketMessages(answered.socket, answered.head);
    } catch (cause) {
      signal?.throwIfAborted();
      throw wayError(url, cause);
    } finally {
      signal?.removeEventListener("abort", aborted);
    }
  }

  /** Ends the connections that are kept. */
  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
    this.#agents.clear();
  }

  async #begin(
    url: string,
    options: RequestOptions,
    leaving: AbortSignal | undefined,
    keep = true,
  ): Promise<ClientRequest> {
    const { protocol } = new URL(url);
    const { Agent, request } = protocol === "https:"
      ? await import("node:https")
      : await import("node:http");
    const kept = keep ? this.#agents.get(protocol) : undefined;
    // What Deno connects by vsock has none of the methods that a kept connection needs.
    const keepAlive = keep && (this.#vsock === undefined || "path" in this.#vsock);
    const agent = kept ?? this.#dialling(new Agent({ keepAlive }));
    if (keep) this.#agents.set(protocol, agent);
    const socketPath = this.#socketPath;
    return request(url, {
      agent,
      ...options,
      ...(leaving === undefined ? {} : { leaving }),
      ...(socketPath === undefined ? {} : { socketPath }),
    });
  }

  /** Has an agent connect by vsock, if that is the way, for as long as the request is wanted that needs it. */
  #dialling<A extends HttpAgent>(agent: A): A {
    const vsock = this.#vsock;
    if (vsock === undefined) return agent;
    const createConnection = (
      { leaving }: { readonly leaving?: AbortSignal },
      made: (error: unknown, socket?: Duplex) => void,
    ): void => void dial(vsock, leaving).then((socket) => made(null, socket), made);
    return Object.assign(agent, { createConnection });
  }
}

/** Sends a body at the pace of its connection. */
async function pour(body: ReadableStream<Uint8Array>, request: ClientRequest): Promise<void> {
  for await (const piece of body) {
    if (request.destroyed) return;
    if (!request.write(piece)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      request.once("drain", resolve).once("close", resolve);
      await promise;
      request.off("drain", resolve).off("close", resolve);
    }
  }
  request.end();
}

/** The web's form of an answer, read at its reader's pace. */
function asResponse(message: IncomingMessage, ended: () => void = () => {}): Response {
  const headers = new Headers();
  for (let at = 0; at + 1 < message.rawHeaders.length; at += 2) {
    headers.append(message.rawHeaders[at] ?? "", message.rawHeaders[at + 1] ?? "");
  }
  const status = message.statusCode ?? 0;
  const pieces = message[Symbol.asyncIterator]() as AsyncIterator<Uint8Array<ArrayBuffer>>;
  const empty = status === 204 || status === 304;
  if (empty) message.resume();
  message.once("close", ended);
  const body = empty ? null : new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller): Promise<void> {
      const { done, value } = await pieces.next();
      if (done) controller.close();
      else controller.enqueue(new Uint8Array(value.buffer, value.byteOffset, value.length));
    },
    cancel(): void {
      message.destroy();
    },
  }, new CountQueuingStrategy({ highWaterMark: 0 }));
  return new Response(body, { status, headers });
}
