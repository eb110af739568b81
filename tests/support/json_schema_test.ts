import { deepStrictEqual, notDeepStrictEqual, throws } from "node:assert/strict";
import { schemaDocument } from "../../src/contract/document.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { type JsonSchema, violations } from "./json_schema.ts";

const DEFS = {
  Small: { type: "integer", minimum: 0, maximum: 9 },
  Named: { type: "object", properties: { a: { $ref: "#/$defs/Small" } }, required: ["a"] },
};

const CASES: readonly [JsonSchema, fits: unknown, not: unknown][] = [
  [{ type: "string" }, "x", 1],
  [{ type: "integer" }, 1, 1.5],
  [{ type: "number" }, 1.5, "1"],
  [{ type: "boolean" }, false, null],
  [{ type: "null" }, null, 0],
  [{ type: "array", items: { type: "string" } }, ["a"], ["a", 1]],
  [{ type: "array", minItems: 1, maxItems: 1 }, [0], []],
  [{ type: "array", maxItems: 1 }, [0], [0, 0]],
  [{ type: "object" }, {}, []],
  [{ enum: ["a", "b"] }, "b", "c"],
  [{ const: true }, true, 1],
  [{ exclusiveMinimum: 0 }, 1, 0],
  [{ minLength: 1, maxLength: 2 }, "ab", "abc"],
  [{ minLength: 1 }, "ab", ""],
  [{ pattern: "^a" }, "ab", "b"],
  [{ $ref: "#/$defs/Named" }, { a: 9 }, { a: 10 }],
  [{ $ref: "#/$defs/Named" }, { a: 0, b: 1 }, {}],
  [{ $ref: "#/$defs/Small" }, 0, -1],
  [{ additionalProperties: { type: "string" } }, { x: "" }, { x: 1 }],
  [{ propertyNames: { minLength: 1 } }, { x: 1 }, { "": 1 }],
  [{ dependentRequired: { a: ["b"] } }, { b: 1 }, { a: 1 }],
  [{ anyOf: [{ type: "null" }, { $ref: "#/$defs/Small" }] }, null, 10],
  [{ if: { const: 1 }, then: { maximum: 1 }, else: { type: "string" } }, "x", 2],
  [{ if: { type: "string" }, then: { minLength: 1 } }, 2, ""],
];

Deno.test("each keyword of the schema checker lets through what fits and nothing else", () => {
  for (const [schema, fits, not] of CASES) {
    deepStrictEqual(violations(schema, fits, DEFS), [], JSON.stringify(schema));
    notDeepStrictEqual(violations(schema, not, DEFS), [], JSON.stringify(schema));
  }
});

Deno.test("a keyword that the schema checker does not know is an error", () => {
  throws(() => violations({ oneOf: [] }, 1, {}), /unknown keyword 'oneOf'/);
  throws(() => violations({ $ref: "#/$defs/Missing" }, 1, {}), /no such/);
});

Deno.test("the schema checker knows every keyword of the daemon's own document", () => {
  const options = { limits: DEFAULT_LIMITS, hookPrefix: "/p", versionHeader: "v" };
  const { $defs } = schemaDocument(options) as unknown as { $defs: Record<string, JsonSchema> };
  for (const schema of Object.values($defs)) {
    for (const value of [null, 0, "x", true, [], {}]) violations(schema, value, $defs);
  }
});
