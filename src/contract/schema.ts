/**
 * Schemas of single values of the wire. Each decodes what it publishes, so that the two cannot differ; an error names
 * field and kind, never a value.
 *
 * @module
 */

/** What a JSON Schema may hold; uint64 bounds need bigint. */
export type JsonValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | readonly JsonValue[]
  | JsonObject;

/** A JSON object, as published. */
export interface JsonObject {
  /** One keyword. */
  readonly [keyword: string]: JsonValue;
}

/** An unsigned 64-bit integer; a number is exact only up to `Number.MAX_SAFE_INTEGER`. */
export type Uint64 = number | bigint;

/** The largest {@link Uint64}. */
export const UINT64_MAX: bigint = 2n ** 64n - 1n;

/** Describes values of type `T`: publishes them as JSON Schema and decodes them. */
export interface Schema<T> {
  /** Name under `$defs`; what has none is published where it is used. */
  readonly name?: string;
  /** What is expected, for sentences: "a string". */
  readonly kind: string;
  /** The JSON Schema itself. */
  readonly json: JsonObject;
  /** Gives `value` as `T`; throws {@link Mismatch} naming `field`. */
  decode(value: unknown, field: string): T;
}

/** A value that its schema does not describe. The message names field and kind and quotes nothing. */
export class Mismatch extends Error {
  /** Makes an error with a complete sentence. */
  constructor(sentence: string) {
    super(sentence);
    this.name = "Mismatch";
  }
}

/** Throws the {@link Mismatch} for a field that is not of the kind expected. */
export function mismatch(field: string, kind: string): never {
  throw new Mismatch(`${field} must be ${kind}`);
}

/** Bounds on a string. */
export interface TextRules {
  /** When true the string must not be empty. */
  readonly nonEmpty?: boolean;
  /** When true the string must be one that a C string can carry: no NUL, no lone surrogate. */
  readonly cString?: boolean;
  /** When true the string must hold no lone surrogate. */
  readonly wellFormed?: boolean;
  /** Most bytes of UTF-8. */
  readonly maxBytes?: number;
}

/** A string within `rules`. */
export function text(rules: TextRules = {}): Schema<string> {
  const { nonEmpty = false, cString = false, wellFormed = cString, maxBytes } = rules;
  const kind = `a ${nonEmpty ? "non-empty " : ""}string`;
  return {
    kind,
    json: {
      type: "string",
      ...(nonEmpty ? { minLength: 1 } : {}),
      ...(maxBytes === undefined ? {} : { maxLength: maxBytes }),
      ...(cString ? { pattern: "^[^\\u0000]*$" } : {}),
    },
    decode(value: unknown, field: string): string {
      if (typeof value !== "string" || (nonEmpty && value === "")) mismatch(field, kind);
      if (wellFormed && !value.isWellFormed()) mismatch(field, "a string without lone surrogates");
      if (cString && value.includes("\0")) mismatch(field, "a string without NUL characters");
      // A UTF-16 unit makes at most three bytes: few are worth counting.
      if (maxBytes !== undefined && 3 * value.length > maxBytes && utf8Length(value) > maxBytes) {
        mismatch(field, `at most ${maxBytes} bytes of UTF-8`);
      }
      return value;
    },
  };
}

/** One of `choices`; published as `name` under `$defs`, or in place without one. */
export function choice<C extends string>(choices: readonly C[], name = ""): Schema<C> {
  const kind = `one of ${choices.join(", ")}`;
  return {
    name,
    kind,
    json: { type: "string", enum: choices },
    decode: (value: unknown, field: string): C =>
      choices.find((allowed) => allowed === value) ?? mismatch(field, kind),
  };
}

/** `true` or `false`. */
export function bool(): Schema<boolean> {
  return {
    kind: "a boolean",
    json: { type: "boolean" },
    decode: (value: unknown, field: string): boolean =>
      typeof value === "boolean" ? value : mismatch(field, "a boolean"),
  };
}

/** An integer from `minimum` to `maximum`, `format` being its OpenAPI name. */
export function integer(format: string, minimum: number, maximum: number): Schema<number> {
  const kind = `an integer from ${minimum} to ${maximum}`;
  return {
    kind,
    json: { type: "integer", format, minimum, maximum },
    decode(value: unknown, field: string): number {
      if (!Number.isInteger(value)) mismatch(field, kind);
      const whole = value as number;
      // Adding zero turns -0 into 0.
      return whole >= minimum && whole <= maximum ? whole + 0 : mismatch(field, kind);
    },
  };
}

/** A uint32. */
export const uint32 = (): Schema<number> => integer("uint32", 0, 0xffff_ffff);

/** An int32. */
export const int32 = (): Schema<number> => integer("int32", -0x8000_0000, 0x7fff_ffff);

/** A uint64, as a bigint or a number. */
export function uint64(): Schema<Uint64> {
  const kind = "an unsigned 64-bit integer";
  return {
    kind,
    json: { type: "integer", format: "uint64", minimum: 0, maximum: UINT64_MAX },
    decode(value: unknown, field: string): Uint64 {
      const isWhole = typeof value === "bigint" || Number.isInteger(value);
      if (!isWhole || (value as Uint64) < 0 || (value as Uint64) > UINT64_MAX) {
        mismatch(field, kind);
      }
      return value as Uint64;
    },
  };
}

/** A double that is finite and greater than zero. */
export function positiveNumber(): Schema<number> {
  const kind = "a positive finite number";
  return {
    kind,
    json: { type: "number", format: "double", exclusiveMinimum: 0 },
    decode: (value: unknown, field: string): number =>
      typeof value === "number" && Number.isFinite(value) && value > 0
        ? value
        : mismatch(field, kind),
  };
}

/** A uint64 from `minimum` on, written as decimal digits in a query. */
export function digits64(minimum: bigint): Schema<bigint> {
  const kind = minimum === 0n ? "an unsigned 64-bit integer" : `an integer from ${minimum}`;
  return {
    kind,
    json: { type: "integer", format: "uint64", minimum, maximum: UINT64_MAX },
    decode: (value: unknown, field: string): bigint =>
      parseDigits(value, minimum, UINT64_MAX) ?? mismatch(field, kind),
  };
}

/** A uint16, written as decimal digits in a query. */
export function digits16(): Schema<number> {
  return {
    kind: "an integer from 0 to 65535",
    json: { type: "integer", format: "uint16", minimum: 0, maximum: 65535 },
    decode: (value: unknown, field: string): number =>
      Number(parseDigits(value, 0n, 65535n) ?? mismatch(field, "an integer from 0 to 65535")),
  };
}

/** A boolean, written `1`, `true`, `0` or `false` in a query. */
export function flag(): Schema<boolean> {
  return {
    kind: "one of 1, true, 0, false",
    json: { type: "boolean" },
    decode(value: unknown, field: string): boolean {
      if (value === "1" || value === "true") return true;
      return value === "0" || value === "false" ? false : mismatch(field, this.kind);
    },
  };
}

/** The value of `[0-9]+`, exact; undefined for anything else and out of the bounds. */
function parseDigits(text: unknown, minimum: bigint, maximum: bigint): bigint | undefined {
  if (typeof text !== "string" || !/^[0-9]+$/.test(text)) return undefined;
  // Cut before converting: a request line holds up to 64 KiB of digits.
  const significant = text.replace(/^0+/, "");
  if (significant.length > 20) return undefined;
  const parsed = BigInt(significant);
  return parsed >= minimum && parsed <= maximum ? parsed : undefined;
}

/** Bytes that `value` takes as UTF-8, without encoding it. */
function utf8Length(value: string): number {
  let bytes = 0;
  for (let index = 0; index < value.length; index++) {
    const unit = value.charCodeAt(index);
    // Each half of a surrogate pair counts two of the pair's four bytes.
    bytes += unit < 0x80 ? 1 : unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 2 : 3;
  }
  return bytes;
}
