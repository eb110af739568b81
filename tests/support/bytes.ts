/** Bytes put together, and texts of one char a byte. */

export { concat } from "../../src/client/bytes.ts";

/** One char a byte, as headers are on the wire. */
export function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}

/** The other way round. TextDecoder's latin-1 is windows-1252, which maps some bytes elsewhere. */
export function asLatin1(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

/** Where `wanted` begins, or -1. */
export function indexOf(bytes: Uint8Array, wanted: Uint8Array): number {
  const [first = 0] = wanted;
  let at = bytes.indexOf(first);
  while (at !== -1 && !wanted.every((byte, index) => bytes[at + index] === byte)) {
    at = bytes.indexOf(first, at + 1);
  }
  return at;
}

/** Bytes that are told apart wherever they are cut, other ones for each seed. */
export function noise(size: number, seed = 1): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(size / 4));
  let state = seed;
  for (let at = 0; at < words.length; at++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    words[at] = state;
  }
  return new Uint8Array(words.buffer, 0, size);
}

/** SHA-256, to compare what is too long to be shown. */
export async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

/** Throws unless two long texts are the same, and tells where they part: a difference of megabytes takes all memory. */
export function sameText(text: string, wanted: string): void {
  if (text === wanted) return;
  let at = 0;
  while (text[at] === wanted[at] && at < text.length) at++;
  const near = (whole: string): string => JSON.stringify(whole.slice(at, at + 40));
  throw new Error(
    `Cannot match ${text.length} chars with ${wanted.length}: ${near(text)} at ${at}, expected ${
      near(wanted)
    }`,
  );
}
