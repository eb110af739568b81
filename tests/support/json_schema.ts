/**
 * A checker for the JSON Schemas that the daemon publishes. It knows the keywords that occur there and throws on any
 * other, so that none is passed over in silence.
 *
 * @module
 */

/** A schema, or a part of one. */
export type JsonSchema = Readonly<Record<string, unknown>>;

type Check = (argument: unknown, value: unknown, at: Place) => string[];

/** Where the checker is: the path for sentences, the schema around it, and the definitions that `$ref` names. */
interface Place {
  readonly path: string;
  readonly schema: JsonSchema;
  readonly definitions: Readonly<Record<string, JsonSchema>>;
}

/** What of `value` the schema does not allow, one sentence each; empty when it fits. */
export function violations(
  schema: JsonSchema,
  value: unknown,
  definitions: Readonly<Record<string, JsonSchema>>,
  path = "value",
): string[] {
  const at = { path, schema, definitions };
  return Object.entries(schema).flatMap(([keyword, argument]) => {
    if (ANNOTATIONS.has(keyword)) return [];
    const check = KEYWORDS[keyword];
    if (check === undefined) throw new Error(`Cannot check ${path}: unknown keyword '${keyword}'`);
    return check(argument, value, at);
  });
}

/** These say nothing about a value, or belong to another keyword. */
const ANNOTATIONS = new Set(["description", "default", "format", "then", "else", "title"]);

const inner = (at: Place, schema: unknown, value: unknown, path = at.path): string[] =>
  violations(schema as JsonSchema, value, at.definitions, path);

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const unless = (fits: boolean, at: Place, what: string): string[] =>
  fits ? [] : [`${at.path} ${what}`];

/** A rule for values of one type; others pass, as JSON Schema has it. */
function ofText(rule: (argument: never, text: string) => boolean, what: string): Check {
  return (argument, value, at) =>
    unless(
      typeof value !== "string" || rule(argument as never, value),
      at,
      `${what} ${String(argument)}`,
    );
}

function ofNumber(rule: (limit: number, value: number) => boolean, what: string): Check {
  return (argument, value, at) =>
    unless(
      typeof value !== "number" || rule(Number(argument), value),
      at,
      `${what} ${String(argument)}`,
    );
}

function ofList(rule: (limit: number, length: number) => boolean, what: string): Check {
  return (argument, value, at) =>
    unless(!Array.isArray(value) || rule(Number(argument), value.length), at, what);
}

function fitsType(type: unknown, value: unknown): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "integer":
      return Number.isInteger(value);
    case "string":
      return typeof value === "string";
    case "boolean":
      return typeof value === "boolean";
    case "number":
      return typeof value === "number";
    default:
      throw new Error(`Cannot check a type: '${String(type)}' is none`);
  }
}

const KEYWORDS: Readonly<Record<string, Check>> = {
  $ref: (argument, value, at) => {
    const name = String(argument).replace("#/$defs/", "");
    const target = at.definitions[name];
    if (target === undefined) throw new Error(`Cannot follow ${String(argument)}: no such $def`);
    return inner(at, target, value);
  },
  type: (argument, value, at) => unless(fitsType(argument, value), at, `is no ${String(argument)}`),
  enum: (argument, value, at) =>
    unless((argument as unknown[]).includes(value), at, `is none of ${String(argument)}`),
  const: (argument, value, at) => unless(argument === value, at, `is not ${String(argument)}`),
  minimum: ofNumber((limit, value) => value >= limit, "is below"),
  maximum: ofNumber((limit, value) => value <= limit, "is above"),
  exclusiveMinimum: ofNumber((limit, value) => value > limit, "is not above"),
  minLength: ofText((limit: number, text) => [...text].length >= limit, "is shorter than"),
  maxLength: ofText((limit: number, text) => [...text].length <= limit, "is longer than"),
  pattern: ofText((pattern: string, text) => new RegExp(pattern, "u").test(text), "does not match"),
  minItems: ofList((limit, length) => length >= limit, "has too few items"),
  maxItems: ofList((limit, length) => length <= limit, "has too many items"),
  items: (argument, value, at) =>
    !Array.isArray(value)
      ? []
      : value.flatMap((item, index) => inner(at, argument, item, `${at.path}[${index}]`)),
  required: (argument, value, at) =>
    !isObject(value)
      ? []
      : (argument as string[]).flatMap((name) =>
        unless(Object.hasOwn(value, name), at, `has no ${name}`)
      ),
  properties: (argument, value, at) =>
    !isObject(value)
      ? []
      : Object.entries(argument as JsonSchema).flatMap(([name, schema]) =>
        Object.hasOwn(value, name) ? inner(at, schema, value[name], `${at.path}.${name}`) : []
      ),
  additionalProperties: (argument, value, at) => {
    if (!isObject(value)) return [];
    const known = at.schema["properties"] ?? {};
    return Object.entries(value).flatMap(([name, item]) =>
      Object.hasOwn(known as object, name) ? [] : inner(at, argument, item, `${at.path}.${name}`)
    );
  },
  propertyNames: (argument, value, at) =>
    !isObject(value)
      ? []
      : Object.keys(value).flatMap((name) => inner(at, argument, name, `name ${name}`)),
  dependentRequired: (argument, value, at) =>
    !isObject(value)
      ? []
      : Object.entries(argument as Record<string, string[]>).flatMap(([name, others]) =>
        !Object.hasOwn(value, name)
          ? []
          : others.flatMap((other) =>
            unless(Object.hasOwn(value, other), at, `has ${name} without ${other}`)
          )
      ),
  anyOf: (argument, value, at) => {
    const all = (argument as JsonSchema[]).map((schema) => inner(at, schema, value));
    return unless(all.some((found) => found.length === 0), at, `fits none of ${all.join("; ")}`);
  },
  if: (argument, value, at) => {
    const branch = inner(at, argument, value).length === 0 ? "then" : "else";
    const schema = at.schema[branch];
    return schema === undefined ? [] : inner(at, schema, value);
  },
};
