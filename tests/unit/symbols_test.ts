import { deepStrictEqual, notStrictEqual, strictEqual, throws } from "node:assert/strict";
import { exportedFunctions } from "../support/elf.ts";
import { rustExports, type Signature } from "../support/rust_exports.ts";
import { readSource, sourceFiles, sourceUrl } from "../support/source_files.ts";

/** The symbol tables of src/native: every exported object whose values are all foreign functions. */
async function tables(): Promise<Map<string, Signature>> {
  const found = new Map<string, Signature>();
  for (const path of sourceFiles("src/native", ".ts")) {
    if (path !== "src/native/symbols.ts") continue;
    const module: Record<string, unknown> = await import(sourceUrl(path).href);
    for (const table of Object.values(module).filter(isTable)) {
      for (const [key, { name, parameters, result }] of Object.entries(table)) {
        const signature = { parameters: parameters.map(plainName), result: plainName(result) };
        const before = found.get(name ?? key);
        if (before !== undefined) {
          deepStrictEqual(signature, before, `${key} stands twice, differently`);
        }
        found.set(name ?? key, signature);
      }
    }
  }
  return found;
}

interface ForeignRow {
  readonly name?: string;
  readonly parameters: readonly unknown[];
  readonly result: unknown;
}

function isTable(value: unknown): value is Record<string, ForeignRow> {
  if (typeof value !== "object" || value === null) return false;
  const rows: unknown[] = Object.values(value);
  return rows.length > 0 &&
    rows.every((row) =>
      typeof row === "object" && row !== null && "result" in row && "parameters" in row &&
      Array.isArray(row.parameters)
    );
}

// "pointer" and "buffer" are one to C: which of them a table uses is a matter of what JavaScript passes.
const plainName = (type: unknown): string => (type === "pointer" ? "buffer" : String(type));

function exports(): Map<string, Signature> {
  const found = new Map<string, Signature>();
  for (const path of sourceFiles("native/src", ".rs")) {
    for (const [name, { parameters, result }] of rustExports(readSource(path))) {
      found.set(name, { parameters: parameters.map(plainName), result: plainName(result) });
    }
  }
  return found;
}

const sorted = (map: Map<string, Signature>): [string, Signature][] =>
  [...map].sort(([a], [b]) => (a < b ? -1 : 1));

Deno.test("the symbol tables say of each export what the Rust source says", async () => {
  notStrictEqual(exports().size, 0);
  deepStrictEqual(sorted(await tables()), sorted(exports()));
});

Deno.test("the library exports exactly what the Rust source declares", () => {
  const library = sourceUrl("dist/libguestd.so").pathname;
  deepStrictEqual(exportedFunctions(library), [...exports().keys()].sort());
});

Deno.test("an export's types are read, and one that cannot be is no silence", () => {
  const source = (text: string): string => `#[unsafe(no_mangle)]\npub ${text}`;
  deepStrictEqual(
    rustExports(
      source('unsafe extern "C" fn a(\n    x: u32,\n    y: *mut u8,\n) -> i32 {') +
        source('extern "C" fn b() {'),
    ),
    new Map([
      ["a", { parameters: ["u32", "buffer"], result: "i32" }],
      ["b", { parameters: [], result: "void" }],
    ]),
  );
  throws(() => rustExports(source('extern "C" fn a(x: Foo) {')), /Foo/);
  throws(() => rustExports(source('extern "C" fn a(x: extern "C" fn(u32)) {')), /1 declared, 0/);
});

Deno.test("what is no library is refused", () => {
  throws(() => exportedFunctions("deno.json"), /no library/);
  strictEqual(isTable({}), false);
  strictEqual(isTable({ version: 3 }), false);
});
