/**
 * Writes what a package is made of: `sbom.cdx.json` (CycloneDX 1.6) with every crate, npm package and Deno, and `copyright`
 * with their licences. `ingredients.ts DIRECTORY ARCH SCRIPTS ROW...` reads what `cargo metadata` prints. SCRIPTS are those
 * that ship, joined by commas; a row is what no registry of ours has: `NAME|VERSION|LICENCE|DIRECTORY`.
 *
 * @module
 */

/** One thing that ships. */
export interface Ingredient {
  readonly name: string;
  readonly version: string;
  /** As SPDX writes it. */
  readonly licence: string;
  /** Package URL without the version. */
  readonly purl: string;
  /** Where its files lie, among them its licences; nothing where there are none of it here. */
  readonly directory?: string;
}

interface CargoPackage {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly license: string | null;
  readonly manifest_path: string;
}

interface CargoNode {
  readonly id: string;
  readonly deps: readonly {
    readonly pkg: string;
    readonly dep_kinds: readonly { readonly kind: string | null }[];
  }[];
}

/** What `cargo metadata` prints, as far as it is read here. */
export interface CargoMetadata {
  readonly packages: readonly CargoPackage[];
  readonly resolve: { readonly root: string; readonly nodes: readonly CargoNode[] };
}

/** The crates that are linked in: those that the root depends on, but for its tests and build scripts. */
export function crates({ packages, resolve }: CargoMetadata): Ingredient[] {
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
  const reached = new Set<string>();
  const open = [resolve.root];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const deps = nodes.get(id)?.deps ?? [];
    const linked = deps.filter(({ dep_kinds }) => dep_kinds.some(({ kind }) => kind === null));
    for (const { pkg } of linked) {
      if (!reached.has(pkg)) open.push(pkg);
      reached.add(pkg);
    }
  }
  return packages.filter(({ id }) => reached.has(id)).map((found) => ({
    name: found.name,
    version: found.version,
    licence: (found.license ?? "NOASSERTION").replaceAll("/", " OR "),
    purl: `pkg:cargo/${found.name}`,
    directory: found.manifest_path.replace(/\/[^/]*$/, ""),
  }));
}

/** What `deno info --json` prints, as far as it is read here. */
export interface ModuleGraph {
  readonly modules: readonly { readonly specifier: string }[];
  readonly npmPackages?: Readonly<
    Record<string, { readonly name: string; readonly version: string; readonly localPath: string }>
  >;
}

/** The npm packages of which a module is in the graph. */
export function npmPackages({ modules, npmPackages = {} }: ModuleGraph): Ingredient[] {
  const names = modules.flatMap(({ specifier }) =>
    /^npm:\/?((?:@[^/]+\/)?[^/]+)/.exec(specifier)?.[1] ?? []
  );
  return [...new Set(names)].map((id) => {
    const found = npmPackages[id];
    if (found === undefined) throw new Error(`Cannot tell what ${id} is: it was not resolved`);
    const { name, version, localPath } = found;
    const { license } = JSON.parse(Deno.readTextFileSync(`${localPath}/package.json`)) as {
      license?: string;
    };
    return {
      name,
      version,
      licence: license ?? "NOASSERTION",
      purl: `pkg:npm/${name.replace("@", "%40")}`,
      directory: localPath,
    };
  });
}

/** The document: the same text for the same ingredients, so neither a time nor a number drawn by chance. */
export function sbom(version: string, arch: string, ingredients: readonly Ingredient[]): string {
  const components = ingredients.map(({ name, version, licence, purl }) => ({
    type: "library",
    "bom-ref": `${purl}@${version}`,
    name,
    version,
    licenses: [{ expression: licence }],
    purl: `${purl}@${version}`,
  }));
  const self = `pkg:generic/guestd@${version}?arch=${arch}`;
  const main = {
    type: "application",
    "bom-ref": self,
    name: "guestd",
    version,
    licenses: [{ expression: "MIT" }],
    purl: self,
  };
  const document = {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: { component: main },
    components,
    dependencies: [{ ref: self, dependsOn: components.map((one) => one["bom-ref"]) }],
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

function licenceTexts(directory: string): string[] {
  const names = Array.from(Deno.readDirSync(directory)).filter(({ isFile }) => isFile)
    .map(({ name }) => name).filter((name) => /^(licen[cs]e|copying|unlicense|notice)/i.test(name));
  return names.toSorted().map((name) => Deno.readTextFileSync(`${directory}/${name}`).trim());
}

/** The licences of all, each text once, with whom it is for. */
export function copyright(own: string, ingredients: readonly Ingredient[]): string {
  const texts = new Map<string, string[]>();
  for (const { name, version, directory } of ingredients) {
    for (const text of directory === undefined ? [] : licenceTexts(directory)) {
      texts.set(text, [...texts.get(text) ?? [], `${name} ${version}`]);
    }
  }
  const list = ingredients.map(({ name, version, licence }) => `  ${name} ${version}: ${licence}`);
  return [
    `guestd\n\n${own.trim()}`,
    `In it is work of others, under their licences:\n\n${list.join("\n")}`,
    "Deno is itself made of V8 and many other parts, which its own source names (github.com/denoland/deno).",
    ...Array.from(texts, ([text, names]) => `Of ${names.join(", ")}:\n\n${text}`),
  ].join(`\n\n${"-".repeat(72)}\n\n`) + "\n";
}

function moduleGraph(deno: string, script: string): ModuleGraph {
  const args = ["info", "--json", script];
  const { success, stdout, stderr } = new Deno.Command(deno, { args }).outputSync();
  if (!success) throw new Error(`Cannot list modules: ${new TextDecoder().decode(stderr)}`);
  return JSON.parse(new TextDecoder().decode(stdout)) as ModuleGraph;
}

/** What a row of the arguments says; without a directory there is no text of the licence. */
function given(row: string): Ingredient {
  const [name = "", version = "", licence = "", directory = ""] = row.split("|");
  const purl = `pkg:generic/${encodeURIComponent(name)}`;
  return { name, version, licence, purl, ...(directory === "" ? {} : { directory }) };
}

if (import.meta.main) {
  const [to = "", arch = "", scripts = "", ...rows] = Deno.args;
  const metadata = JSON.parse(await new Response(Deno.stdin.readable).text()) as CargoMetadata;
  const npm = scripts.split(",").flatMap((script) =>
    npmPackages(moduleGraph(Deno.execPath(), script))
  );
  const all = [...rows.map(given), ...crates(metadata), ...npm]
    .toSorted((a, b) => `${a.purl}@${a.version}` < `${b.purl}@${b.version}` ? -1 : 1);
  const { version } = JSON.parse(Deno.readTextFileSync("deno.json")) as { version: string };
  Deno.writeTextFileSync(`${to}/sbom.cdx.json`, sbom(version, arch, all));
  Deno.writeTextFileSync(`${to}/copyright`, copyright(Deno.readTextFileSync("LICENSE"), all));
}
