/**
 * Schemas of the wire: each carries its JSON Schema for publication and decodes what it describes,
 * so that what is published and what is accepted come from one place. A decoder's error names field
 * and kind, never a value.
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

/** Something that is published as JSON Schema. */
export interface Published {
  /** Name under `$defs`; what has none is published inline. */
  readonly name?: string;
  /** The JSON Schema itself. */
  readonly json: JsonObject;
}

/** Describes values of type `T`: publishes them as JSON Schema and decodes them. */
export interface Schema<T> extends Published {
  /** What is expected, for sentences: "a string". */
  readonly kind: string;
  /** Gives `value` as `T`; throws {@link Mismatch} naming `field`. */
  decode(value: unknown, field: string): T;
}

/**
 * A value that its schema does not describe. The message names field and kind and quotes nothing.
 */
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
  /** The only values allowed. */
  readonly choices?: readonly string[];
  /** When true the string must not be empty. */
  readonly nonEmpty?: boolean;
  /**
   * When true the string must be something that a C string can carry: no NUL, no lone surrogate.
   */
  readonly cString?: boolean;
  /** When true the string must hold no lone surrogate. */
  readonly wellFormed?: boolean;
  /** Most bytes of UTF-8. */
  readonly maxBytes?: number;
  /** Description for the published schema. */
  readonly description?: string;
}

/** A string within `rules`. */
export function text(rules: TextRules = {}): Schema<string> {
  const { choices, nonEmpty = false, cString = false, wellFormed = cString, maxBytes } = rules;
  const kind = choices === undefined
    ? `a ${nonEmpty ? "non-empty " : ""}string`
    : `one of ${choices.join(", ")}`;
  return {
    kind,
    json: {
      ...(rules.description === undefined ? {} : { description: rules.description }),
      type: "string",
      ...(choices === undefined ? {} : { enum: choices }),
      ...(nonEmpty ? { minLength: 1 } : {}),
      ...(maxBytes === undefined ? {} : { maxLength: maxBytes }),
      ...(cString ? { pattern: "^[^\\u0000]*$" } : {}),
    },
    decode(value: unknown, field: string): string {
      if (typeof value !== "string") mismatch(field, kind);
      if (choices !== undefined && !choices.includes(value)) mismatch(field, kind);
      if (nonEmpty && value === "") mismatch(field, kind);
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
export function uint64(minimum = 0): Schema<Uint64> {
  const kind = "an unsigned 64-bit integer";
  return {
    kind,
    json: { type: "integer", format: "uint64", minimum, maximum: UINT64_MAX },
    decode(value: unknown, field: string): Uint64 {
      const whole = typeof value === "bigint" || Number.isInteger(value);
      if (!whole || (value as Uint64) < minimum || (value as Uint64) > UINT64_MAX) {
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
