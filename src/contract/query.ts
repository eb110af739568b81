import { type JsonObject, Mismatch, mismatch, type Published, UINT64_MAX } from "./schema.ts";

/** Where a query's parameters are looked up. */
export interface QuerySource {
  /** The first value of `name`; throws {@link Mismatch} when its escapes do not decode. */
  text(name: string): string | undefined;
}

/** A parameter of a query that becomes a `T`. */
export interface Parameter<T> {
  /** JSON Schema of the value. */
  readonly json: JsonObject;
  /** Whether a query without it is refused. */
  readonly required: boolean;
  /** Decodes the text; throws {@link Mismatch} naming `field`. */
  decode(value: string, field: string): T;
  /** The value of a missing parameter. */
  readonly absent: T;
}

/** A query that becomes a `T`. */
export interface QuerySchema<T> extends Published {
  /** Name under `$defs`. */
  readonly name: string;
  /** Decodes a query; throws {@link Mismatch} naming the parameter. */
  read(source: QuerySource): T;
}

/** The parameters of `T`, one for each of its keys. */
export type Parameters<T> = { readonly [K in keyof T]-?: Parameter<T[K]> };

/** A query with `parameters`; unknown ones are ignored. */
export function query<T extends object>(
  name: string,
  description: string,
  parameters: Parameters<T>,
): QuerySchema<T> {
  const entries = Object.entries<Parameter<unknown>>(parameters);
  return {
    name,
    json: {
      description,
      type: "object",
      properties: Object.fromEntries(entries.map(([key, parameter]) => [key, parameter.json])),
      required: entries.filter(([, parameter]) => parameter.required).map(([key]) => key),
    },
    read(source: QuerySource): T {
      const decoded: Record<string, unknown> = {};
      for (const [key, parameter] of entries) {
        const value = source.text(key);
        if (value === undefined && parameter.required) {
          throw new Mismatch(`query parameter ${key} is missing`);
        }
        decoded[key] = value === undefined
          ? parameter.absent
          : parameter.decode(value, `query parameter ${key}`);
      }
      return decoded as T;
    },
  };
}

/** A parameter that must be there and is not empty, free of NUL. */
export function pathParameter(description: string): Parameter<string> {
  return {
    json: { description, type: "string", minLength: 1, pattern: "^[^\\u0000]*$" },
    required: true,
    absent: "",
    decode(value: string, field: string): string {
      if (value === "") mismatch(field, "a non-empty string");
      return value.includes("\0") ? mismatch(field, "a string without NUL characters") : value;
    },
  };
}

/** A string that may be missing, which gives null. */
export function textParameter(description: string): Parameter<string | null> {
  return {
    json: { description, anyOf: [{ type: "string" }, { type: "null" }] },
    required: false,
    absent: null,
    decode: (value) => value,
  };
}

/** A uint64 from `minimum` that may be missing, which gives `absent`. */
export function uint64Parameter<A extends bigint | null>(
  absent: A,
  minimum: bigint,
  description: string,
): Parameter<bigint | A> {
  const kind = minimum === 0n ? "an unsigned 64-bit integer" : `an integer from ${minimum}`;
  return {
    json: {
      description,
      anyOf: [
        { type: "integer", format: "uint64", minimum, maximum: UINT64_MAX },
        { type: "null" },
      ],
    },
    required: false,
    absent,
    decode(value: string, field: string): bigint {
      const parsed = parseDigits(value, UINT64_MAX);
      return parsed === undefined || parsed < minimum ? mismatch(field, kind) : parsed;
    },
  };
}

/** A uint16 that must be there. */
export function portParameter(description: string): Parameter<number> {
  return {
    json: { description, type: "integer", format: "uint16", minimum: 0, maximum: 65535 },
    required: true,
    absent: 0,
    decode(value: string, field: string): number {
      const parsed = parseDigits(value, 65535n);
      return parsed === undefined ? mismatch(field, "an integer from 0 to 65535") : Number(parsed);
    },
  };
}

/** A boolean written `1`, `true`, `0` or `false`; missing means false. */
export function flagParameter(description: string): Parameter<boolean> {
  return {
    json: { description, type: "boolean", default: false },
    required: false,
    absent: false,
    decode(value: string, field: string): boolean {
      if (value === "1" || value === "true") return true;
      return value === "0" || value === "false"
        ? false
        : mismatch(field, "one of 1, true, 0, false");
    },
  };
}

/** The value of `[0-9]+`, exact; undefined for anything else and beyond `max`. */
export function parseDigits(digits: string, max: bigint): bigint | undefined {
  if (!/^[0-9]+$/.test(digits)) return undefined;
  // Cut before converting: a request line holds up to 64 KiB of digits.
  const significant = digits.replace(/^0+/, "");
  if (significant.length > 20) return undefined;
  const parsed = BigInt(significant === "" ? "0" : significant);
  return parsed <= max ? parsed : undefined;
}
