/**
 * Copies the comments of the wire's types and of their fields into `src/contract/descriptions.json`, from where the
 * schema document takes its descriptions. Run by `./build.sh` before the daemon is bundled.
 *
 * @module
 */

const CONTRACT = new URL("../src/contract/", import.meta.url);
const TARGET = new URL("descriptions.json", CONTRACT);

/** A comment and what it stands above: an `object` of the contract, a type of texts, or a field of an `object`. */
const COMMENTED =
  /^(?: {2})?\/\*\*((?:(?!\*\/)[^])*)\*\/\n(?:export class (\w+) extends object\(|export type (\w+) = "| {2}(\w+):)/gm;

/** The descriptions in one source: of `Health` under its name, of its field `busy` under `Health.busy`. */
export function describe(source: string): Map<string, string> {
  const found = new Map<string, string>();
  let type = "";
  for (const [, comment = "", object, texts, field = ""] of source.matchAll(COMMENTED)) {
    const name = object ?? texts;
    type = name ?? type;
    const words = comment.replace(/^ *\* ?/gm, "").split(/\s+/).filter((word) => word !== "");
    const text = words.join(" ").replace(/\{@link (\w+)\}/g, "`$1`");
    found.set(name ?? `${type}.${field}`, text);
  }
  return found;
}

/** The whole file, as it should be. */
export function descriptionsFile(): string {
  const names = Array.from(Deno.readDirSync(CONTRACT), ({ name }) => name);
  const sources = names.filter((name) => name.endsWith(".ts")).toSorted();
  const all = sources
    .map((name) => Deno.readTextFileSync(new URL(name, CONTRACT)))
    .flatMap((source) => [...describe(source)]);
  return `${JSON.stringify(Object.fromEntries(all), null, 2)}\n`;
}

if (import.meta.main) {
  const wanted = descriptionsFile();
  // What has not changed is not touched, so that nothing is built again for it.
  if (Deno.readTextFileSync(TARGET) !== wanted) Deno.writeTextFileSync(TARGET, wanted);
}
