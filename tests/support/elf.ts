/** The symbols of a shared library, as readelf tells them: it is where a linker is, and reads every architecture's. */

interface Symbol {
  readonly address: number;
  readonly name: string;
  readonly isExportedFunction: boolean;
}

function symbols(path: string, table: "--dyn-syms" | "--syms"): Symbol[] {
  const { success, stdout } = new Deno.Command("readelf", { args: ["-W", table, path] })
    .outputSync();
  if (!success) throw new Error(`Cannot read the symbols of ${path}: it is no library`);
  return new TextDecoder().decode(stdout).split("\n").flatMap((line) => {
    const [, value, , type, binding, , section, name = ""] = line.trim().split(/\s+/);
    if (!/^[0-9a-f]{16}$/.test(value ?? "")) return [];
    const isExportedFunction = type === "FUNC" && binding === "GLOBAL" && section !== "UND";
    return [{ address: parseInt(value ?? "", 16), name, isExportedFunction }];
  });
}

/** Names of the functions that the library defines and exports. Throws for what is none. */
export function exportedFunctions(path: string): string[] {
  const found = symbols(path, "--dyn-syms").filter(({ isExportedFunction }) => isExportedFunction);
  return found.map(({ name }) => name).sort();
}

/** Where the library's one symbol whose name holds `part` lies in memory, from the library's beginning on. */
export function localSymbol(path: string, part: string): number {
  const [found, ...more] = symbols(path, "--syms").filter(({ name }) => name.includes(part));
  if (found === undefined || more.length > 0) throw new Error(`Cannot find one symbol ${part}`);
  return found.address;
}
