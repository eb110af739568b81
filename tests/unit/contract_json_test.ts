import { deepStrictEqual, ok, strictEqual, throws } from "node:assert/strict";
import { encodeJson, parseJson } from "../../src/contract/json.ts";
import { Mismatch } from "../../src/contract/schema.ts";

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
const MIB = 1024 * 1024;

Deno.test("a bigint is written with all its digits, wherever it stands", () => {
  const value = { max: 2n ** 64n - 1n, list: [0n, 9007199254740993n], text: "1n", number: 0.5 };
  strictEqual(
    encodeJson(value),
    '{"max":18446744073709551615,"list":[0,9007199254740993],"text":"1n","number":0.5}',
  );
});

Deno.test("the shape counts above 128 KiB, beyond 512 levels and beyond 1,000,000 values", () => {
  const padded = (json: string, bytes: number): Uint8Array => encode(json.padEnd(bytes));
  const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
  const list = (values: number): string => `[${"0,".repeat(values - 1)}0]`;
  const small = 128 * 1024;
  parseJson(padded(nested(513), small), "the body");
  parseJson(padded(nested(512), small + 1), "the body");
  throws(() => parseJson(padded(nested(513), small + 1), "the body"), /deeper than 512 levels/);
  throws(
    () => parseJson(encode(`{${'"a":0,'.repeat(MIB)}"b":0}`), "the body"),
    (error) => error instanceof Mismatch && /^the body holds more/.test(error.message),
  );
  parseJson(encode(list(1_000_000)), "the body");
  throws(
    () => parseJson(encode(list(1_000_001)), "the body"),
    /more than 1000000 names and values/,
  );
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
  const body = encode(JSON.stringify({ command: new Array(200_000).fill("x".repeat(80)) }));
  ok(body.length > 16 * MIB - MIB);
  const started = performance.now();
  parseJson(body, "the body");
  ok(performance.now() - started < 2000);
});
