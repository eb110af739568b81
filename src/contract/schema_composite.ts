import { type JsonObject, Mismatch, mismatch, type Published, type Schema } from "./schema.ts";

/** Publishes `schema` as `name` under `$defs`. */
export function define<T>(name: string, description: string, schema: Schema<T>): Schema<T> {
  return { ...schema, name, json: { description, ...schema.json } };
}

/** The JSON Schema by which another one refers to `schema`. */
export function reference(schema: Published): JsonObject {
  return schema.name === undefined ? schema.json : { $ref: `#/$defs/${schema.name}` };
}

/** `schema` or null. */
export function nullable<T>(schema: Schema<T>): Schema<T | null> {
  const kind = `${schema.kind} or null`;
  return {
    kind,
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

/**
 * An object that maps names to `values`. Decoded into a Map, where `__proto__` is a name like any
 * other.
 */
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

/** A field of an object, made by {@link required}, {@link optional} or {@link withDefault}. */
export interface Field<T> {
  /** Schema of the field when it is there. */
  readonly schema: Schema<unknown>;
  /** Whether an object without the field is refused. */
  readonly required: boolean;
  /** JSON Schema of the field. */
  readonly json: JsonObject;
  /** Decodes the field when it is there. */
  decode(value: unknown, field: string): T;
  /** The value of a missing field; undefined leaves it out. */
  absent(): T | undefined;
}

/** A field that must be there. */
export function required<T>(schema: Schema<T>, description?: string): Field<T> {
  return makeField(schema, true, description, () => undefined);
}

/** A field that may be missing, and stays so. */
export function optional<T>(schema: Schema<T>, description?: string): Field<T | undefined> {
  return makeField<T | undefined>(schema, false, description, () => undefined);
}

/**
 * A field that has the value of `fallback` when missing; `shown` is that value in the published
 * schema.
 */
export function withDefault<T>(
  schema: Schema<T>,
  fallback: () => T,
  shown: JsonObject[string],
  description?: string,
): Field<T> {
  const field = makeField(schema, false, description, fallback);
  return { ...field, json: { ...field.json, default: shown } };
}

/** The fields of `T`, one for each of its keys. */
export type Fields<T> = { readonly [K in keyof T]-?: Field<T[K]> };

/** An object with `fields`; others are ignored. `extra` adds keywords to the published schema. */
export function object<T extends object>(fields: Fields<T>, extra: JsonObject = {}): Schema<T> {
  const entries = Object.entries<Field<unknown>>(fields);
  return {
    kind: "an object",
    json: {
      type: "object",
      properties: Object.fromEntries(entries.map(([name, field]) => [name, field.json])),
      required: entries.filter(([, field]) => field.required).map(([name]) => name),
      ...extra,
    },
    decode(value: unknown, path: string): T {
      const source = asObject(value, path);
      const prefix = path === BODY ? "" : `${path}.`;
      const decoded: Record<string, unknown> = {};
      for (const [name, field] of entries) {
        const present = Object.hasOwn(source, name);
        if (!present && field.required) throw new Mismatch(`${prefix}${name} is missing`);
        const item = present ? field.decode(source[name], prefix + name) : field.absent();
        if (item !== undefined) decoded[name] = item;
      }
      return decoded as T;
    },
  };
}

/** How sentences call the outermost value. */
export const BODY = "the body";

function makeField<T>(
  schema: Schema<T>,
  isRequired: boolean,
  description: string | undefined,
  absent: () => T | undefined,
): Field<T> {
  return {
    schema,
    required: isRequired,
    json: description === undefined ? reference(schema) : { description, ...reference(schema) },
    decode: (value, field) => schema.decode(value, field),
    absent,
  };
}

function asObject(value: unknown, field: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    mismatch(field, "an object");
  }
  return value as Record<string, unknown>;
}
