/** WebSocket frames of a client, made by hand, so that they can also be made wrong. */

import { concat } from "./bytes.ts";

/** Opcodes and flags of section 5.2 of RFC 6455. */
export const OP = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
export const FIN = 0x80;

const KEY = [0x37, 0xfa, 0x21, 0x3d] as const;

/** A masked frame. `first` is the opcode with its flags; `length` may lie about the payload's. */
export function frame(
  first: number,
  payload: Uint8Array | string = new Uint8Array(),
  options: { readonly length?: bigint } = {},
): Uint8Array<ArrayBuffer> {
  const bytes = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
  const length = options.length ?? BigInt(bytes.length);
  const size = length < 126n ? 0 : length < 65536n ? 2 : 8;
  const head = new Uint8Array(2 + size + 4);
  const view = new DataView(head.buffer);
  head[0] = first;
  head[1] = 0x80 | (size === 0 ? Number(length) : size === 2 ? 126 : 127);
  if (size === 2) view.setUint16(2, Number(length));
  if (size === 8) view.setBigUint64(2, length);
  head.set(KEY, 2 + size);
  return concat([head, bytes.map((byte, at) => byte ^ (KEY[at & 3] ?? 0))]);
}

export function closing(code: number, reason = ""): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(reason);
  return frame(FIN | OP.close, new Uint8Array([code >> 8, code & 0xff, ...text]));
}
