import { faultOf } from "./json_fault.ts";
import { Mismatch } from "./schema.ts";

/**
 * Bodies below this many bytes are parsed unseen: whatever they hold, it takes less than some 60
 * bytes of heap for each byte. Larger ones are looked through first.
 */
const TRUSTED_BYTES = 64 * 1024;
const MAX_DEPTH = 512;
/** More than any command's arguments: a kernel with its defaults takes as many only if they are shorter than eight bytes. */
const MAX_VALUES = 131_072;
/** More than any environment has. To parse and to check so many takes some 50 ms, in which everybody else waits. */
const MAX_NAMES = 8192;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

// V8's errors quote the input, so none of them leaves this module.
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** JSON with more names or values than anybody has a use for. */
export class TooMany extends Mismatch {}

/**
 * Parses a body as JSON. Throws {@link Mismatch} naming `what` when it is not UTF-8, not JSON, or
 * made to exhaust memory, and {@link TooMany}: sixteen MiB of brackets would otherwise take half a gigabyte of heap.
 */
export function parseJson(bytes: Uint8Array, what: string): unknown {
  if (bytes.length > TRUSTED_BYTES) refuseBombs(bytes, what);
  let decoded: string;
  try {
    decoded = utf8.decode(bytes);
  } catch {
    throw new Mismatch(`${what} is not valid UTF-8`);
  }
  return parseJsonText(decoded, what);
}

/** Parses a string as JSON; throws {@link Mismatch} naming `what` and the place of the fault. */
export function parseJsonText(source: string, what: string): unknown {
  try {
    return JSON.parse(source);
  } catch {
    throw new Mismatch(
      source === ""
        ? `${what} is empty`
        : `${what} is not valid JSON at position ${faultOf(source)}`,
    );
  }
}

/** A marker made by `JSON.rawJSON`, which TypeScript's library does not know yet. */
const rawJson = (JSON as unknown as { rawJSON(digits: string): unknown }).rawJSON;

/** `value` as JSON text; a bigint becomes a number with all its digits. */
export function encodeJson(value: unknown): string {
  try {
    // Without a replacer, which makes it ten times slower; a bigint alone makes it throw.
    return JSON.stringify(value);
  } catch {
    return JSON.stringify(
      value,
      (_key, item: unknown) => typeof item === "bigint" ? rawJson(item.toString()) : item,
    );
  }
}

/** Strict base64: standard alphabet, padded, no white space. Throws {@link Mismatch} naming `field`. */
export function decodeBase64(encoded: string, field: string): Uint8Array<ArrayBuffer> {
  // V8's strict decoder accepts white space, so it is looked for here.
  if (!/[\t\n\f\r ]/.test(encoded)) {
    try {
      return Uint8Array.fromBase64(encoded, { lastChunkHandling: "strict" });
    } catch {
      // Falls through to the sentence that quotes nothing.
    }
  }
  throw new Mismatch(`${field} must be padded base64 of the standard alphabet`);
}

function refuseBombs(bytes: Uint8Array, what: string): void {
  let depth = 0;
  let [names, values] = [0, 0];
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index];
    if (byte === QUOTE) {
      index = endOfString(bytes, index);
    } else if (byte === COLON) {
      if (++names > MAX_NAMES) throw new TooMany(`${what} holds more than ${MAX_NAMES} names`);
    } else if (byte === COMMA) {
      if (++values > MAX_VALUES) throw new TooMany(`${what} holds more than ${MAX_VALUES} values`);
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      if (++depth > MAX_DEPTH) throw new Mismatch(`${what} nests deeper than ${MAX_DEPTH} levels`);
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth--;
    }
  }
}

/** Index of the quote that ends the string begun at `start`, or the length where none does. */
function endOfString(bytes: Uint8Array, start: number): number {
  const quote = bytes.indexOf(QUOTE, start + 1);
  if (quote === -1) return bytes.length;
  if (bytes[quote - 1] !== BACKSLASH) return quote;
  // Byte by byte from here on: there may be millions of escaped quotes.
  for (let index = start + 1; index < bytes.length; index++) {
    if (bytes[index] === BACKSLASH) index++;
    else if (bytes[index] === QUOTE) return index;
  }
  return bytes.length;
}
