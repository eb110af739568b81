/** Frames of WebSockets (RFC 6455), as a client writes and reads them. */

import { concat } from "./bytes.ts";
import { ProtocolViolation } from "./errors.ts";

/** Opcodes that are used here. */
export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** The longest message that is taken, in bytes: a daemon sends much shorter ones. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;
const FIN = 0x80;
const MASKED = 0x80;

/** A whole frame, masked by a key of its own. */
export function encodeFrame(opcode: number, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const { length } = payload;
  const sizeBytes = length < 126 ? 0 : length < 65536 ? 2 : 8;
  const headBytes = 2 + sizeBytes + 4;
  // The payload begins at a multiple of four, so that it is masked four bytes at a time.
  const start = Math.ceil(headBytes / 4) * 4 - headBytes;
  const words = new Uint32Array(Math.ceil((start + headBytes + length) / 4));
  const all = new Uint8Array(words.buffer, start, headBytes + length);
  const view = new DataView(all.buffer, start);
  all[0] = FIN | opcode;
  all[1] = MASKED | (sizeBytes === 0 ? length : sizeBytes === 2 ? 126 : 127);
  if (sizeBytes === 2) view.setUint16(2, length);
  if (sizeBytes === 8) view.setBigUint64(2, BigInt(length));
  const key = crypto.getRandomValues(all.subarray(2 + sizeBytes, headBytes));
  const mask = new Uint32Array(key.slice().buffer)[0] ?? 0;
  all.set(payload, headBytes);
  for (let at = (start + headBytes) / 4; at < words.length; at++) {
    words[at] = (words[at] ?? 0) ^ mask;
  }
  return all;
}

/** A message, or a frame of control. */
export interface Frame {
  /** One of {@link OPCODE}. */
  readonly opcode: number;
  /** What it carries. */
  readonly payload: Uint8Array;
}

/** Reads frames from what a connection brings; pulls no more than it needs. */
export class FrameReader {
  readonly #pieces: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array();

  /** Takes over what comes; `head` came already. */
  constructor(pieces: AsyncIterator<Uint8Array>, head: Uint8Array) {
    this.#pieces = pieces;
    this.#rest = head;
  }

  /**
   * The next message, put together, or frame of control; null at the end of the connection. Throws a
   * {@link ProtocolViolation} for what is neither.
   */
  async next(): Promise<Frame | null> {
    const parts: Uint8Array[] = [];
    let begun: number | undefined;
    let size = 0;
    for (;;) {
      const head = await this.#take(2);
      if (head === null) return null;
      const [first = 0, second = 0] = head;
      const opcode = first & 0x0f;
      if ((first & 0x70) !== 0 || (second & MASKED) !== 0) {
        throw new ProtocolViolation("Cannot read a frame: it has bits that nobody agreed on");
      }
      const payload = await this.#payload(second & 0x7f);
      if (payload === null) return null;
      if (opcode >= OPCODE.close) {
        if (parts.length === 0) return { opcode, payload };
        throw new ProtocolViolation("Cannot read a frame: control inside a message");
      }
      if ((opcode === OPCODE.continuation) !== (begun !== undefined)) {
        throw new ProtocolViolation("Cannot read a frame: a message has another order");
      }
      begun ??= opcode;
      if ((first & FIN) !== 0 && parts.length === 0) return { opcode, payload };
      parts.push(payload);
      size += payload.length;
      checkSize(size);
      if ((first & FIN) !== 0) return { opcode: begun, payload: concat(parts) };
    }
  }

  async #payload(short: number): Promise<Uint8Array | null> {
    if (short < 126) return await this.#take(short);
    const long = await this.#take(short === 126 ? 2 : 8);
    if (long === null) return null;
    const size = long.reduce((sum, byte) => sum * 256 + byte, 0);
    checkSize(size);
    return await this.#take(size);
  }

  /** So many bytes; null where the connection ends first. */
  async #take(size: number): Promise<Uint8Array | null> {
    if (this.#rest.length < size) {
      const pieces = [this.#rest];
      for (let have = this.#rest.length; have < size;) {
        const { done, value } = await this.#pieces.next();
        if (done === true) return null;
        pieces.push(value);
        have += value.length;
      }
      this.#rest = pieces.length === 2 && pieces[0]?.length === 0
        ? pieces[1] ?? this.#rest
        : concat(pieces);
    }
    const taken = this.#rest.subarray(0, size);
    this.#rest = this.#rest.subarray(size);
    return taken;
  }
}

function checkSize(size: number): void {
  if (size <= MAX_MESSAGE_BYTES) return;
  throw new ProtocolViolation(`Cannot read a message: it has more than ${MAX_MESSAGE_BYTES} bytes`);
}
