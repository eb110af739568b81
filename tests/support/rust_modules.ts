/** The modules of the native core and what they import of each other, by reading their source. */

import type { Edge } from "./import_graph.ts";

/** The file of each module, by its path: `crate::process::log`. */
export type ModuleFiles = ReadonlyMap<string, string>;

const ROOT = "native/src/";

/** Modules of files below `native/src`; those that only hold tests are left out. */
export function moduleFiles(paths: readonly string[]): ModuleFiles {
  const sources = paths.filter((path) => path.startsWith(ROOT) && !/[_/]tests\.rs$/.test(path));
  return new Map(sources.map((path) => [moduleOf(path), path]));
}

/** `native/src/process/mod.rs` is `crate::process`, and `native/src/lib.rs` is `crate`. */
export function moduleOf(path: string): string {
  const names = path.slice(ROOT.length).replace(/\.rs$/, "").split("/");
  if (names.at(-1) === "mod" || names.join() === "lib") names.pop();
  return ["crate", ...names].join("::");
}

/** The files of ours that the module at `path` names, in imports or in its code; each once, itself never. */
export function rustEdges(path: string, source: string, files: ModuleFiles): Edge[] {
  const own = moduleOf(path);
  const named = pathsOf(withoutTests(source)).map((name) => fileOf(absolute(name, own), files));
  const targets = new Set(named.filter((to) => to !== undefined && to !== path));
  return [...targets].map((to) => ({ from: path, to: to ?? "" }));
}

/** Source without comments, and without the module of tests at its end. */
function withoutTests(source: string): string {
  return source.replaceAll(/\/\/.*$/gm, "").replace(/^#\[cfg\(test\)\]\s*mod \w+ \{[^]*/m, "");
}

/** Every path that begins at this crate's root or near the module, with groups of an import spelt out. */
function pathsOf(source: string): string[] {
  const imports = Array.from(source.matchAll(/\buse\s+([^;]+);/g), ([, tree = ""]) => spelt(tree));
  const code = source.replaceAll(/\buse\s+[^;]+;/g, "").match(/\b(crate|super|self)(::\w+)+/g) ??
    [];
  return [...imports.flat(), ...code].filter((path) => /^(crate|super|self)\b/.test(path));
}

/** `a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`. */
function spelt(tree: string): string[] {
  const text = tree.replaceAll(/\s+as\s+\w+|\s+/g, "");
  const open = text.indexOf("{");
  if (open === -1) return [text];
  const [head, inner] = [text.slice(0, open), text.slice(open + 1, text.lastIndexOf("}"))];
  const parts = [""];
  let depth = 0;
  for (const letter of inner) {
    if (letter === "{") depth++;
    if (letter === "}") depth--;
    if (letter === "," && depth === 0) parts.push("");
    else parts.push((parts.pop() ?? "") + letter);
  }
  return parts.filter((part) => part !== "").flatMap(spelt).map((part) => head + part);
}

function absolute(name: string, own: string): string[] {
  const parts = name.split("::").filter((part) => part !== "self");
  if (parts[0] === "crate") return parts;
  const base = own.split("::");
  while (parts[0] === "super") {
    parts.shift();
    base.pop();
  }
  return [...base, ...parts];
}

/** The file of the longest beginning of a path that is a module: the rest names things in it. */
function fileOf(parts: readonly string[], files: ModuleFiles): string | undefined {
  for (let length = parts.length; length > 1; length--) {
    const file = files.get(parts.slice(0, length).join("::"));
    if (file !== undefined) return file;
  }
  return undefined;
}
