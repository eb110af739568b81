/** A WebSocket over a connection that was upgraded, read and written at the peer's pace. */

import type { Duplex } from "node:stream";
import { ProtocolViolation, TunnelClosed } from "./errors.ts";
import type { Close, MessageSocket } from "./transport.ts";
import { encodeFrame, FrameReader, OPCODE } from "./websocket_frames.ts";

/** How long the peer may take to answer a close, in milliseconds. */
const CLOSING_MS = 5_000;

/** Invariant: `#over` is there once the connection has ended or the peer has said so, and `closed` is then resolved. */
export class SocketMessages implements MessageSocket {
  readonly closed: Promise<Close>;
  readonly #socket: Duplex;
  readonly #frames: FrameReader;
  readonly #isClosed: (close: Close) => void;
  #over: Close | undefined;
  #closing = false;

  /** Takes over a socket behind its upgrade, and what came with that. */
  constructor(socket: Duplex, head: Uint8Array) {
    this.#socket = socket;
    this.#frames = new FrameReader(socket[Symbol.asyncIterator](), head);
    const { promise, resolve } = Promise.withResolvers<Close>();
    this.closed = promise;
    this.#isClosed = resolve;
    // Reads and writes tell of errors themselves.
    socket.on("error", () => {});
    socket.once("close", () => this.#end({ code: 1006, reason: "" }));
    (socket as { setNoDelay?: (on: boolean) => void }).setNoDelay?.(true);
  }

  /** See {@link MessageSocket}. */
  async send(message: Uint8Array): Promise<void> {
    if (this.#closing) throw new TunnelClosed(1000, "it was closed here");
    await this.#write(OPCODE.binary, message);
  }

  /** See {@link MessageSocket}. */
  async receive(): Promise<Uint8Array | null> {
    while (this.#over === undefined) {
      const frame = await this.#frames.next().catch((error) => {
        this.abort();
        if (error instanceof ProtocolViolation) throw error;
        return null;
      });
      if (frame === null) this.#end({ code: 1006, reason: "" });
      else if (frame.opcode === OPCODE.ping) await this.#write(OPCODE.pong, frame.payload);
      else if (frame.opcode === OPCODE.close) this.#answerClose(frame.payload);
      else if (frame.opcode !== OPCODE.pong) return frame.payload;
    }
    return null;
  }

  /** See {@link MessageSocket}. What comes until the peer's answer is for `receive`, as before. */
  close(code = 1000): void {
    if (this.#closing || this.#over !== undefined) return;
    this.#closing = true;
    this.#socket.write(encodeFrame(OPCODE.close, new Uint8Array([code >> 8, code & 0xff])));
    const timer = setTimeout(() => this.abort(), CLOSING_MS);
    this.#socket.once("close", () => clearTimeout(timer));
  }

  /** See {@link MessageSocket}. */
  abort(): void {
    this.#end({ code: 1006, reason: "" });
    this.#socket.destroy();
  }

  async #write(opcode: number, payload: Uint8Array): Promise<void> {
    if (this.#over !== undefined) throw new TunnelClosed(this.#over.code, this.#over.reason);
    if (this.#socket.write(encodeFrame(opcode, payload))) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#socket.once("drain", resolve).once("close", resolve);
    await promise;
    this.#socket.off("drain", resolve).off("close", resolve);
  }

  #answerClose(payload: Uint8Array): void {
    const [high, low] = payload;
    const code = high === undefined || low === undefined ? 1005 : high * 256 + low;
    if (!this.#closing) this.#socket.write(encodeFrame(OPCODE.close, payload.subarray(0, 2)));
    this.#closing = true;
    this.#end({ code, reason: new TextDecoder().decode(payload.subarray(2)) });
    this.#socket.end();
    this.#socket.resume();
    const timer = setTimeout(() => this.#socket.destroy(), CLOSING_MS);
    this.#socket.once("close", () => clearTimeout(timer));
  }

  #end(close: Close): void {
    if (this.#over !== undefined) return;
    this.#over = close;
    this.#isClosed(close);
  }
}
