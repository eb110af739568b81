/** The project's own sources, for tests that hold them to the rules of the house. */

const ROOT = new URL("../../", import.meta.url);

/** Paths below `directory`, both relative to the root of the repository, with one of the endings; sorted. */
export function sourceFiles(directory: string, ...endings: readonly string[]): string[] {
  const found: string[] = [];
  for (const entry of Deno.readDirSync(new URL(`${directory}/`, ROOT))) {
    const path = `${directory}/${entry.name}`;
    if (entry.isDirectory && entry.name !== "target") found.push(...sourceFiles(path, ...endings));
    else if (entry.isFile && endings.some((ending) => entry.name.endsWith(ending))) {
      found.push(path);
    }
  }
  return found.sort();
}

/** Text of a file, by its path from the root of the repository. */
export function readSource(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

/** URL of a file, by its path from the root of the repository. */
export function sourceUrl(path: string): URL {
  return new URL(path, ROOT);
}

export function exists(path: string | URL): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

/** One import or re-export, as it is written. */
export interface Import {
  readonly specifier: string;
  /** Whether it is erased: `import type`, `export type`. */
  readonly typeOnly: boolean;
}

/** What a module imports or re-exports. */
export function importsOf(source: string): Import[] {
  const patterns = [
    /^(?:import|export)\b(\s+type\b)?[^;"']*?\bfrom\s*["']([^"']+)["']/gm,
    /^import()\s*["']([^"']+)["']/gm,
    /\bimport()\(\s*["']([^"']+)["']/g,
  ];
  return patterns.flatMap((pattern) =>
    Array.from(source.matchAll(pattern), ([, type = "", specifier = ""]) => ({
      specifier,
      typeOnly: type !== "",
    }))
  );
}

/** The path that a relative specifier means in the module at `path`; undefined for a package or built-in. */
export function resolveSpecifier(path: string, specifier: string): string | undefined {
  if (!specifier.startsWith(".")) return undefined;
  return new URL(specifier, `file:///${path}`).pathname.slice(1);
}
