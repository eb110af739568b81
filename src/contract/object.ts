/**
 * Schemas of what is made of other values. An object of the wire is declared once, as a class that extends
 * {@link object}: as a type it is the decoded object, as a value its schema. Nobody makes an instance: what `decode`
 * gives, and what the daemon answers with, are plain objects of that type. The comments of class and fields are the
 * descriptions that are published, too: `scripts/descriptions.ts` copies them into `descriptions.json`.
 *
 * @module
 */

import {
  bool,
  type JsonObject,
  type JsonValue,
  Mismatch,
  mismatch,
  type Schema,
} from "./schema.ts";

/** The type of what a schema decodes. */
export type Decoded<S> = S extends Schema<infer T> ? T : never;

/** A field that may be missing, and stays so. */
export interface Optional<T> extends Schema<T> {
  /** What a missing field does. */
  readonly absent: "left out";
}

/** A field that has a value when it is missing. */
export interface Defaulted<T> extends Schema<T> {
  /** That value, as it is decoded, which nobody changes. */
  readonly absent: { readonly value: T };
}

/** The fields of an object by their names; those that are neither optional nor defaulted must be there. */
export type Fields = Readonly<Record<string, Schema<unknown>>>;

/** The object that has `F`. */
export type Item<F extends Fields> =
  & { readonly [K in keyof F as F[K] extends Optional<unknown> ? never : K]: Decoded<F[K]> }
  & { readonly [K in keyof F as F[K] extends Optional<unknown> ? K : never]?: Decoded<F[K]> };

/** The schema of an object, to be extended by the class that names it. */
export interface ObjectSchema<T> extends Schema<T> {
  /** Makes the class a type; never called. */
  new (): T;
  /** Names of its fields. */
  readonly fields: readonly string[];
}

/** How sentences call the outermost value of a body. */
export const BODY = "the body";
/** How sentences begin about a field of a query. */
const QUERY = "query parameter";

/** An object with `fields`; others are ignored. `extra` adds keywords to the published schema. */
export function object<F extends Fields>(fields: F, extra: JsonObject = {}): ObjectSchema<Item<F>> {
  const rows = Object.entries(fields).map(([name, schema]) => {
    const { absent } = schema as Partial<Defaulted<unknown> | Optional<unknown>>;
    return { name, schema, absent };
  });
  class Described {
    static readonly kind = "an object";
    static readonly fields = rows.map(({ name }) => name);
    static readonly json: JsonObject = {
      type: "object",
      properties: Object.fromEntries(rows.map(({ name, schema }) => [name, reference(schema)])),
      required: rows.filter(({ absent }) => absent === undefined).map(({ name }) => name),
      ...extra,
    };

    static decode(value: unknown, path: string): Item<F> {
      const source = asObject(value, path);
      const prefix = path === BODY ? "" : path === QUERY ? `${QUERY} ` : `${path}.`;
      const decoded: Record<string, unknown> = {};
      for (const { name, schema, absent } of rows) {
        if (Object.hasOwn(source, name)) decoded[name] = schema.decode(source[name], prefix + name);
        else if (absent === undefined) throw new Mismatch(`${prefix}${name} is missing`);
        else if (absent !== "left out") decoded[name] = absent.value;
      }
      return decoded as Item<F>;
    }
  }
  // Its instances would have the fields, if there were any.
  return Described as unknown as ObjectSchema<Item<F>>;
}

/** A field that may be missing, and stays so. */
export function optional<T>(schema: Schema<T>): Optional<T> {
  return { ...inPlace(schema), absent: "left out" };
}

/** A field that is `value` when it is missing; `shown` is how that is published. */
export function withDefault<T>(schema: Schema<T>, value: T, shown: JsonValue): Defaulted<T> {
  const { json, ...rest } = inPlace(schema);
  return { ...rest, json: { ...json, default: shown }, absent: { value } };
}

/** A field that may be null, and is null when it is missing. */
export function orNull<T>(schema: Schema<T>): Defaulted<T | null> {
  return withDefault(nullable(schema), null, null);
}

/** A boolean that is false when it is missing. */
export function orFalse(): Defaulted<boolean> {
  return withDefault(bool(), false, false);
}

/** `schema` or null. */
export function nullable<T>(schema: Schema<T>): Schema<T | null> {
  return {
    kind: `${schema.kind} or null`,
    json: { anyOf: [reference(schema), { type: "null" }] },
    decode: (value: unknown, field: string): T | null =>
      value === null ? null : schema.decode(value, field),
  };
}

/** An array of `items`. */
export function list<T>(items: Schema<T>): Schema<readonly T[]> {
  return {
    kind: "an array",
    json: { type: "array", items: reference(items) },
    decode(value: unknown, field: string): readonly T[] {
      if (!Array.isArray(value)) mismatch(field, "an array");
      return value.map((item: unknown, index) => items.decode(item, `${field}[${index}]`));
    },
  };
}

/** An object that maps names to `values`. Decoded into a Map, where `__proto__` is a name like any other. */
export function dictionary<T>(
  values: Schema<T>,
  names?: Schema<string>,
): Schema<ReadonlyMap<string, T>> {
  return {
    kind: "an object",
    json: {
      type: "object",
      additionalProperties: reference(values),
      ...(names === undefined ? {} : { propertyNames: names.json }),
    },
    decode(value: unknown, field: string): ReadonlyMap<string, T> {
      const entries = new Map<string, T>();
      const source = asObject(value, field);
      // Not by Object.entries: of many it makes as many lists.
      for (const name of Object.keys(source)) {
        names?.decode(name, `each name in ${field}`);
        entries.set(name, values.decode(source[name], `each value in ${field}`));
      }
      return entries;
    },
  };
}

/** Names in `value` that no field of `schema` has. */
export function unknownFields(schema: ObjectSchema<unknown>, value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  return Object.keys(value).filter((name) => !schema.fields.includes(name));
}

/** The JSON Schema by which another one refers to `schema`. */
export function reference(schema: Schema<unknown>): JsonObject {
  return schema.name ? { $ref: `#/$defs/${schema.name}` } : schema.json;
}

/** Where a query's parameters are looked up. */
export interface QuerySource {
  /** The first value of `name`; throws {@link Mismatch} when its escapes do not decode. */
  text(name: string): string | undefined;
}

/** Decodes a query by the schema of its parameters, which are all texts; throws {@link Mismatch} naming one. */
export function decodeQuery<T>(schema: ObjectSchema<T>, source: QuerySource): T {
  const given = schema.fields.map((name) => [name, source.text(name)] as const);
  return schema.decode(Object.fromEntries(given.filter(([, text]) => text !== undefined)), QUERY);
}

/** What `schema` describes, published where it is used. */
function inPlace<T>(schema: Schema<T>): Schema<T> {
  return {
    kind: schema.kind,
    json: reference(schema),
    decode: (value, field) => schema.decode(value, field),
  };
}

function asObject(value: unknown, field: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    mismatch(field, "an object");
  }
  return value as Record<string, unknown>;
}
