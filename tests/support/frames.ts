/**
 * WebSocket frames of a client, made by hand, so that they can also be made wrong.
 *
 * @module
 */

/** Opcodes and flags of section 5.2 of RFC 6455. */
export const OP = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
/** The bit that ends a message. */
export const FIN = 0x80;

const KEY = [0x37, 0xfa, 0x21, 0x3d] as const;

/** A masked frame. `first` is the opcode with its flags; `length` may lie about the payload's. */
export function frame(
  first: number,
  payload: Uint8Array | string = new Uint8Array(),
  options: { readonly length?: bigint; readonly masked?: boolean } = {},
): Uint8Array<ArrayBuffer> {
  const bytes = typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
  const length = options.length ?? BigInt(bytes.length);
  const masked = options.masked ?? true;
  const size = length < 126n ? 0 : length < 65536n ? 2 : 8;
  const head = new Uint8Array(2 + size + (masked ? 4 : 0));
  const view = new DataView(head.buffer);
  head[0] = first;
  head[1] = (masked ? 0x80 : 0) | (size === 0 ? Number(length) : size === 2 ? 126 : 127);
  if (size === 2) view.setUint16(2, Number(length));
  if (size === 8) view.setBigUint64(2, length);
  if (masked) head.set(KEY, 2 + size);
  const whole = new Uint8Array(head.length + bytes.length);
  whole.set(head);
  whole.set(bytes, head.length);
  if (masked) {
    for (let at = 0; at < bytes.length; at++) {
      whole[head.length + at] = (bytes[at] ?? 0) ^ (KEY[at & 3] ?? 0);
    }
  }
  return whole;
}

/** A close frame. */
export function closing(code: number, reason = ""): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(reason);
  return frame(FIN | OP.close, new Uint8Array([code >> 8, code & 0xff, ...text]));
}
