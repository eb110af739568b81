/** How requests and tunnels reach a guest; {@link FetchTransport} and {@link SocketTransport} are two ways. */

/** A request, as a transport sends it. */
export interface TransportRequest {
  /** HTTP method. */
  readonly method: string;
  /** Headers by their names, each value one char a byte. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body; a stream is sent as it comes, and slowed by the guest. */
  readonly body?: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | undefined;
  /** Bytes of the body, where a stream's are known. */
  readonly size?: number | undefined;
  /** Ends the request, and the answer's body if that is still coming. */
  readonly signal?: AbortSignal | undefined;
}

/** How a WebSocket ended. */
export interface Close {
  /** Close code; 1006 where the connection ended without one. */
  readonly code: number;
  /** The peer's words, possibly none. */
  readonly reason: string;
}

/** A WebSocket whose messages are all bytes. */
export interface MessageSocket {
  /** Sends one message; resolves when more may be sent. Rejects with a `TunnelClosed` when it is over. */
  send(message: Uint8Array): Promise<void>;
  /** The next message; null once the socket is closed. One call at a time. */
  receive(): Promise<Uint8Array | null>;
  /** Says the end, once what was sent is on its way. Nothing happens when it is over. */
  close(code?: number): void;
  /** Ends the connection without a word. */
  abort(): void;
  /** Resolves when it is over. */
  readonly closed: Promise<Close>;
}

/** Carries requests and tunnels. Failures of the way itself are `Unreachable` or `ConnectionLost`. */
export interface Transport {
  /** Sends a request to an absolute http or https URL; resolves with whatever status comes. */
  request(url: string, request: TransportRequest): Promise<Response>;
  /**
   * Upgrades a GET of an absolute http or https URL to a WebSocket. Resolves with the answer instead where that is no
   * upgrade and the transport can tell.
   */
  connect(
    url: string,
    request: Pick<TransportRequest, "headers" | "signal">,
  ): Promise<MessageSocket | Response>;
  /** Ends connections that are kept for later. */
  close(): void;
}
