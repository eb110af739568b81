/**
 * A secret within JSON, taken out as bytes: a string of JavaScript's cannot be wiped, and the heap that it lies in
 * copies it about.
 *
 * @module
 */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SLASH = 0x2f;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const LOWER_U = 0x75;

/** The escapes that stand for one other byte, by the letter behind the backslash. */
const ESCAPES: ReadonlyMap<number, number> = new Map(
  [...'"\\/bfnrt'].map((letter, index) => [
    letter.charCodeAt(0),
    '"\\/\b\f\n\r\t'.charCodeAt(index),
  ]),
);

/** The content of a string within JSON: from its first byte to the quote behind it. */
export interface Span {
  /** Index of its first byte. */
  readonly from: number;
  /** Index behind its last byte. */
  readonly to: number;
}

/**
 * Where the string is that `key` of the outermost object leads to. Undefined when that is no string, when the key is
 * there more than once or with escapes of its own, and for text that is not JSON, as far as is looked.
 */
export function findString(json: Uint8Array, key: string): Span | undefined {
  const name = new TextEncoder().encode(key);
  let found: Span | undefined;
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
    else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth--;
    if (byte !== QUOTE) continue;
    const from = at + 1;
    at = endOfString(json, from);
    if (depth !== 1 || at - from !== name.length || !name.every((b, i) => json[from + i] === b)) {
      continue;
    }
    const colon = pastBlanks(json, at + 1);
    if (json[colon] !== COLON) continue;
    const value = pastBlanks(json, colon + 1);
    if (json[value] !== QUOTE || found !== undefined) return undefined;
    at = endOfString(json, value + 1);
    found = { from: value + 1, to: at };
  }
  return found;
}

/** `json` with `text`, which needs no escapes, in place of what is in the string. */
export function withString(json: Uint8Array, { from, to }: Span, text: string): Uint8Array {
  const bytes = new TextEncoder().encode(text);
  const copy = new Uint8Array(json.length - (to - from) + bytes.length);
  copy.set(json.subarray(0, from));
  copy.set(bytes, from);
  copy.set(json.subarray(to), from + bytes.length);
  return copy;
}

/** What the string says, in UTF-8; undefined where it has an escape beyond ASCII, or one that there is not. */
export function unescaped(
  json: Uint8Array,
  { from, to }: Span,
): Uint8Array<ArrayBuffer> | undefined {
  const bytes = new Uint8Array(to - from);
  let length = 0;
  for (let at = from; at < to; at++) {
    let byte = json[at] ?? 0;
    // Neither is allowed to stand for itself.
    if (byte < 0x20) return wiped(bytes);
    if (byte === BACKSLASH) {
      const letter = json[++at] ?? 0;
      let meant = ESCAPES.get(letter);
      if (letter === LOWER_U) {
        meant = asciiOf(json.subarray(at + 1, at + 5));
        at += 4;
      }
      if (meant === undefined) return wiped(bytes);
      byte = meant;
    }
    bytes[length++] = byte;
  }
  // What comes behind was never written.
  return bytes.subarray(0, length);
}

/** What 44 bytes of padded standard base64 stand for, 32 bytes; undefined where they are none. */
export function keyOfBase64(text: Uint8Array): Uint8Array<ArrayBuffer> | undefined {
  if (text.length !== 44 || text[43] !== 0x3d) return undefined;
  const key = new Uint8Array(33);
  let bits = 0;
  for (let at = 0; at < 44; at++) {
    const value = at === 43 ? 0 : valueOf(text[at] ?? 0);
    if (value === undefined) return undefined;
    bits = bits << 6 | value;
    if (at % 4 !== 3) continue;
    const to = (at - 3) / 4 * 3;
    key.set([bits >> 16 & 0xff, bits >> 8 & 0xff, bits & 0xff], to);
    bits = 0;
  }
  // The last digit has two bits more than there is to say.
  if (key[32] !== 0) return wiped(key);
  return key.subarray(0, 32);
}

function valueOf(digit: number): number | undefined {
  if (digit >= 0x41 && digit <= 0x5a) return digit - 0x41;
  if (digit >= 0x61 && digit <= 0x7a) return digit - 0x61 + 26;
  if (digit >= 0x30 && digit <= 0x39) return digit - 0x30 + 52;
  if (digit === 0x2b) return 62;
  return digit === SLASH ? 63 : undefined;
}

function asciiOf(digits: Uint8Array): number | undefined {
  const text = String.fromCharCode(...digits);
  const code = /^[0-9a-fA-F]{4}$/.test(text) ? parseInt(text, 16) : NaN;
  return code < 0x80 ? code : undefined;
}

function wiped(bytes: Uint8Array): undefined {
  bytes.fill(0);
}

function pastBlanks(json: Uint8Array, from: number): number {
  let at = from;
  while (json[at] === 0x20 || json[at] === 0x09 || json[at] === 0x0a || json[at] === 0x0d) at++;
  return at;
}

/** Index of the quote that ends the string whose content begins at `from`, or the length where none does. */
function endOfString(json: Uint8Array, from: number): number {
  for (let at = from; at < json.length; at++) {
    if (json[at] === QUOTE) return at;
    if (json[at] === BACKSLASH) at++;
  }
  return json.length;
}
