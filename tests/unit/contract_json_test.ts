import { deepStrictEqual, ok, strictEqual, throws } from "node:assert/strict";
import { encodeJson, parseJson, TooMany } from "../../src/contract/json.ts";

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
const MIB = 1024 * 1024;

Deno.test("a bigint is written with all its digits, wherever it stands", () => {
  const value = { max: 2n ** 64n - 1n, list: [0n, 9007199254740993n], text: "1n", number: 0.5 };
  strictEqual(
    encodeJson(value),
    '{"max":18446744073709551615,"list":[0,9007199254740993],"text":"1n","number":0.5}',
  );
});

Deno.test("the shape counts above 64 KiB: 512 levels, 8192 names, 131,072 values", () => {
  const padded = (json: string): Uint8Array => encode(json.padEnd(64 * 1024 + 1));
  const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
  const list = (values: number): string => `[${"0,".repeat(values - 1)}0]`;
  const names = (count: number): string => `{${'"a":0,'.repeat(count - 1)}"b":0}`;
  parseJson(encode(nested(513).padEnd(64 * 1024)), "the body");
  parseJson(padded(nested(512)), "the body");
  throws(() => parseJson(padded(nested(513)), "the body"), /deeper than 512 levels/);
  for (
    const [shape, most, what] of [[names, 8192, "names"], [list, 131_073, "values"]] as const
  ) {
    parseJson(padded(shape(most)), "the body");
    throws(
      () => parseJson(padded(shape(most + 1)), "the body"),
      (error) => error instanceof TooMany && error.message.endsWith(what),
    );
  }
});

Deno.test("a large body whose strings look like bombs is taken", () => {
  const text = `\\" ${"[{,:".repeat(MIB)}\\`;
  const value = { text, more: ["\\", '"', "x".repeat(MIB)], end: [[[1]]] };
  deepStrictEqual(parseJson(encode(JSON.stringify(value)), "the body"), value);
});

Deno.test("a large body that breaks off in a string is refused", () => {
  for (const [tail, at] of [['"', 1], ['"\\', 1], ['"\\"', 3], ['"\\\\\\"', 5]] as const) {
    const body = encode(`["${"x".repeat(MIB)}",${tail}`);
    const message = `the body is not valid JSON at position ${MIB + 4 + at}`;
    throws(() => parseJson(body, "the body"), { message });
  }
});

Deno.test("looking through sixteen MiB takes no noticeable time", () => {
  for (const text of ["x".repeat(160), '"'.repeat(80)]) {
    const body = encode(JSON.stringify({ command: new Array(98_000).fill(text) }));
    ok(body.length > 15 * MIB);
    // On a busy machine the one or other try is held up by somebody else.
    const times = Array.from({ length: 5 }, () => {
      const started = performance.now();
      parseJson(body, "the body");
      return performance.now() - started;
    });
    ok(Math.min(...times) < 1000, `${times}`);
  }
});
