/** The core's exports as its Rust source declares them, in the words of Deno's symbol tables. */

/** Parameters and result of a function, as Deno names types. */
export interface Signature {
  readonly parameters: readonly string[];
  readonly result: string;
}

const TYPES: ReadonlyMap<string, string> = new Map([
  ...["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "usize", "isize", "f32", "f64", "bool"]
    .map((name): [string, string] => [name, name]),
  ["*const u8", "buffer"],
  ["*mut u8", "buffer"],
  ["*const c_void", "pointer"],
  ["*mut c_void", "pointer"],
]);

const EXPORT =
  /#\[unsafe\(no_mangle\)\]\s*pub (?:unsafe )?extern "C" fn (\w+)\(([^()]*)\)\s*(?:->\s*([^{]+?)\s*)?\{/g;

/** Every exported function of a Rust file. Throws for one that it cannot read, rather than pass over it. */
export function rustExports(source: string): Map<string, Signature> {
  const found = new Map<string, Signature>();
  for (const [, name = "", parameters = "", result] of source.matchAll(EXPORT)) {
    found.set(name, {
      parameters: parameters.split(",").map((part) => part.trim()).filter((part) => part !== "")
        .map((part) => denoType(part.slice(part.indexOf(":") + 1).trim(), name)),
      result: result === undefined || result === "()" ? "void" : denoType(result, name),
    });
  }
  const declared = source.match(/no_mangle|export_name/g)?.length ?? 0;
  if (declared !== found.size) {
    throw new Error(`Cannot read the exports: ${declared} declared, ${found.size} understood`);
  }
  return found;
}

function denoType(type: string, name: string): string {
  const known = TYPES.get(type);
  if (known === undefined) {
    throw new Error(`Cannot compare ${name}: no name in Deno for the type ${type}`);
  }
  return known;
}
