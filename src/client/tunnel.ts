/** Connections to the guest's own ports. */

import { CLOSE_CODES } from "../contract/tunnel.ts";
import { ConnectionLost, IdentityRefused, ProtocolViolation, TunnelClosed } from "./errors.ts";
import type { Identity } from "./identity.ts";
import { Handshake, portPrologue, READY, type Session } from "./noise.ts";
import { refusal, type Requests, withQuery } from "./requests.ts";
import type { Close, MessageSocket } from "./transport.ts";

/** How to connect. */
export interface ConnectOptions {
  /** Proves both ends to each other and encrypts what they send; a guest without one refuses. */
  readonly identity?: Identity;
  /**
   * What the handshake is bound to: `port`, the default, to the port, and a recording of it leads nowhere; `none` for
   * guests that do not know that.
   */
  readonly prologue?: "port" | "none";
  /** Ends the tunnel, then and later, without a word. */
  readonly signal?: AbortSignal;
}

/** A plain message: long enough for speed, far below what a guest takes. */
const PLAIN_BYTES = 256 * 1024;
/** A sealed one, as the protocol has it. */
const SEALED_BYTES = 32 * 1024;
const NONE = new Uint8Array(0);
/** Offers an authenticated end of both directions. */
const OFFER = new Uint8Array([1]);

/** What messages become on their way: with an identity sealed, else nothing. */
interface Wrapping {
  readonly chunkBytes: number;
  seal(plain: Uint8Array): Uint8Array;
  open(message: Uint8Array): Uint8Array;
  /** Whether an empty message is the end of one direction. */
  readonly ends: boolean;
}

const PLAIN: Wrapping = {
  chunkBytes: PLAIN_BYTES,
  seal: (plain) => plain,
  open: (message) => message,
  ends: false,
};

/** A duplex stream of bytes. `await using` ends it at the end of the block. */
export class Tunnel implements AsyncDisposable {
  /**
   * What the guest's program sends, to its end. Fails with a `TunnelClosed` where that was none: 4502 says that nothing
   * listens on the port, 4500 that the connection broke.
   */
  readonly readable: ReadableStream<Uint8Array>;
  /**
   * What it gets. Closing it ends this direction where an identity is used and the guest agreed; a plain tunnel has no
   * half, and ends as a whole once what was written is on its way.
   */
  readonly writable: WritableStream<Uint8Array>;
  /** How it ended, with the WebSocket's close code; 1000 is the proper end. */
  readonly closed: Promise<Close>;
  readonly #socket: MessageSocket;
  readonly #sayEnd: () => Promise<void>;

  /** Made by `guest.connect`. */
  constructor(socket: MessageSocket, wrapping: Wrapping) {
    this.#socket = socket;
    this.closed = socket.closed;
    let said = false;
    this.#sayEnd = async () => {
      if (said || !wrapping.ends) return;
      said = true;
      await socket.send(wrapping.seal(NONE));
    };
    this.readable = incoming(socket, wrapping);
    this.writable = outgoing(socket, wrapping, this.#sayEnd);
  }

  /** Ends both directions; what was written goes first, and where that was agreed the end itself. */
  close(): void {
    // Where that fails the tunnel is over, as wanted.
    this.#sayEnd().catch(() => {}).finally(() => this.#socket.close());
  }

  /** Closes it and waits for the end, without reading what still comes. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    await this.#sayEnd().catch(() => {});
    if (!this.readable.locked) await this.readable.cancel().catch(() => {});
    else this.#socket.abort();
    await this.closed;
  }
}

/** Opens a tunnel, through its handshake where it has one. */
export async function openTunnel(
  requests: Requests,
  port: number,
  { identity, prologue = "port", signal }: ConnectOptions,
): Promise<Tunnel> {
  const what = `connect to port ${port}`;
  const query = { port, identity: identity === undefined ? undefined : 1 };
  const url = requests.base + withQuery("/v1/tcp", query);
  const socket = await requests.transport.connect(url, { headers: requests.headers, signal });
  if (socket instanceof Response) throw await refusal(what, socket, signal);
  signal?.addEventListener("abort", () => socket.abort(), { once: true });
  try {
    if (identity === undefined) return new Tunnel(socket, PLAIN);
    const bound = prologue === "port" ? portPrologue(port) : NONE;
    return new Tunnel(socket, await prove(socket, identity, bound));
  } catch (error) {
    socket.abort();
    signal?.throwIfAborted();
    throw error;
  }
}

/** The handshake; throws {@link IdentityRefused} where the guest is not the one that is expected. */
async function prove(
  socket: MessageSocket,
  identity: Identity,
  prologue: Uint8Array,
): Promise<Wrapping> {
  const { secret, guestPublicKey: vmPublicKey } = identity;
  const handshake = new Handshake({ secret, vmPublicKey, prologue });
  await socket.send(handshake.first(OFFER));
  const answer = await socket.receive();
  if (answer === null) {
    const { code, reason } = await socket.closed;
    const refused: readonly number[] = [
      CLOSE_CODES.no_identity.code,
      CLOSE_CODES.handshake_refused.code,
    ];
    throw refused.includes(code)
      ? new IdentityRefused(code, reason)
      : new TunnelClosed(code, reason);
  }
  let session: Session;
  try {
    session = handshake.finish(answer);
  } catch (cause) {
    const refused = new IdentityRefused(1000, "the guest's answer does not fit its key");
    refused.cause = cause;
    throw refused;
  }
  if (prologue.length > 0) await socket.send(session.seal(READY));
  return {
    chunkBytes: SEALED_BYTES,
    seal: (plain) => session.seal(plain),
    open: (message) => session.open(message),
    ends: ((session.payload[0] ?? 0) & 1) === 1,
  };
}

function incoming(socket: MessageSocket, wrapping: Wrapping): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller): Promise<void> {
      for (;;) {
        const message = await socket.receive();
        if (message === null) return end(controller, await socket.closed, wrapping);
        const plain = opened(wrapping, message, socket);
        if (plain.length > 0) return controller.enqueue(plain);
        if (!wrapping.ends) continue;
        controller.close();
        // The close frame is still to come, and to be answered.
        return void drain(socket).catch(() => {});
      }
    },
    async cancel(): Promise<void> {
      // What nobody reads would keep the guest's end from being seen.
      socket.close();
      await drain(socket);
    },
  }, new CountQueuingStrategy({ highWaterMark: 0 }));
}

async function drain(socket: MessageSocket): Promise<void> {
  while (await socket.receive() !== null);
}

/** The last of a direction: proper only where it was said as agreed. */
function end(
  controller: ReadableStreamDefaultController<Uint8Array>,
  { code, reason }: Close,
  { ends }: Wrapping,
): void {
  if (code !== 1000) controller.error(new TunnelClosed(code, reason));
  else if (ends) controller.error(new ConnectionLost("Cannot read on: the tunnel was cut short"));
  else controller.close();
}

function opened(wrapping: Wrapping, message: Uint8Array, socket: MessageSocket): Uint8Array {
  try {
    return wrapping.open(message);
  } catch (cause) {
    socket.abort();
    throw new ProtocolViolation("Cannot read on: a message of the tunnel is forged", { cause });
  }
}

function outgoing(
  socket: MessageSocket,
  wrapping: Wrapping,
  sayEnd: () => Promise<void>,
): WritableStream<Uint8Array> {
  return new WritableStream({
    async write(bytes): Promise<void> {
      for (let at = 0; at < bytes.length; at += wrapping.chunkBytes) {
        await socket.send(wrapping.seal(bytes.subarray(at, at + wrapping.chunkBytes)));
      }
    },
    async close(): Promise<void> {
      if (wrapping.ends) await sayEnd();
      else socket.close();
    },
    abort(): void {
      socket.abort();
    },
  });
}
