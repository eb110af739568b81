import { deepStrictEqual, notStrictEqual, throws } from "node:assert/strict";
import { SYMBOLS } from "../../src/native/symbols.ts";
import { exportedFunctions } from "../support/elf.ts";
import { rustExports, type Signature } from "../support/rust_exports.ts";
import { readSource, sourceFiles, sourceUrl } from "../support/source_files.ts";

// "pointer" and "buffer" are one to C: which of them a table uses is a matter of what JavaScript passes.
const plainName = (type: unknown): string => (type === "pointer" ? "buffer" : String(type));

/** What is declared on one side of the border: each name with its types, in the order of the names. */
function sorted(declared: Iterable<[name: string, signature: Signature]>): [string, Signature][] {
  const plain = Array.from(declared, ([name, { parameters, result }]): [string, Signature] => [
    name,
    { parameters: parameters.map(plainName), result: plainName(result) },
  ]);
  return plain.sort(([a], [b]) => (a < b ? -1 : 1));
}

const EXPORTS = sourceFiles("native/src", ".rs").flatMap((path) => [
  ...rustExports(readSource(path)),
]);

Deno.test("the symbol table says of each export what the Rust source says", () => {
  notStrictEqual(EXPORTS.length, 0);
  deepStrictEqual(sorted(Object.entries<Signature>(SYMBOLS)), sorted(EXPORTS));
});

Deno.test("the library exports exactly what the Rust source declares", () => {
  const library = sourceUrl("dist/libguestd.so").pathname;
  deepStrictEqual(exportedFunctions(library), EXPORTS.map(([name]) => name).sort());
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
});
