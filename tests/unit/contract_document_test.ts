import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { schemaDocument } from "../../src/contract/document.ts";
import { encodeJson } from "../../src/contract/json.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { ROUTE_NAMES, ROWS } from "../../src/contract/rows.ts";
import { describe, descriptionsFile } from "../../scripts/descriptions.ts";
import { readSource } from "../support/source_files.ts";

const HOOKS = "/platform/runtime/v1";

interface Described {
  readonly description: string;
  readonly properties?: Record<string, Described>;
}

const source = encodeJson(
  schemaDocument({ limits: DEFAULT_LIMITS, hookPrefix: HOOKS, versionHeader: "service-version" }),
);
const document = JSON.parse(source);

Deno.test("the descriptions are the comments of the contract, and every field has one", () => {
  const committed = readSource("src/contract/descriptions.json");
  strictEqual(committed, descriptionsFile(), "./build.sh setup copies them");
  for (
    const [name, { description, properties = {} }] of Object.entries<Described>(document.$defs)
  ) {
    ok(description.length > 5, name);
    for (const field of Object.values(properties)) ok(field.description.length > 5, name);
  }
  match(document.$defs.KillResponse.properties.killed.description, /zombies are not live\.$/);
});

Deno.test("a comment is told from what stands in it, and from one of something else", () => {
  const source = [
    "/** Not: a constant. */\nexport const A = 1;",
    "/**\n * Of two\n * lines, {@link B}.\n */\nexport class A extends object({",
    "  /** One. */\n  one: text(),\n  two: text(),\n  /**\n   * Th\n   * ree.\n   */\n  three: text(),",
  ].join("\n\n");
  deepStrictEqual([...describe(source)], [
    ["A", "Of two lines, `B`."],
    ["A.one", "One."],
    ["A.three", "Th ree."],
  ]);
});

Deno.test("the rows are the 20 names, each once and in order", () => {
  deepStrictEqual(ROWS.map(({ name }) => name), [...ROUTE_NAMES]);
});

Deno.test("a uint64's bound is published exactly", () => {
  ok(source.includes('"maximum":18446744073709551615'));
});
