/** Bytes as text and back, in every runtime. */

/** What newer runtimes have, and the others do in another way. */
interface Native {
  readonly fromBase64?: (text: string) => Uint8Array<ArrayBuffer>;
}

/** Node's Buffer, where there is one. */
interface NodeBuffer {
  from(text: string, encoding: "base64"): Uint8Array<ArrayBuffer>;
  from(bytes: ArrayBufferLike, offset: number, length: number): {
    toString(encoding: "base64"): string;
  };
}

const native = Uint8Array as unknown as Native;
const buffer = (globalThis as unknown as { readonly Buffer?: NodeBuffer }).Buffer;

/** Decodes padded base64; throws where it is none, but for Node 22, which passes over what does not belong. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  if (native.fromBase64 !== undefined) return native.fromBase64(text);
  if (buffer !== undefined) {
    const { buffer: memory, byteOffset, length } = buffer.from(text, "base64");
    return new Uint8Array(memory, byteOffset, length);
  }
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

/** Padded base64 of the bytes. */
export function toBase64(bytes: Uint8Array): string {
  const able = bytes as Uint8Array & { toBase64?: () => string };
  if (able.toBase64 !== undefined) return able.toBase64();
  if (buffer !== undefined) {
    return buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  }
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** One after the other, in a buffer of their own. */
export function concat(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(pieces.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
