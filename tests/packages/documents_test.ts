import { deepStrictEqual, match, ok, strictEqual, throws } from "node:assert/strict";
import { helpText } from "../../src/config.ts";
import { allSettings } from "../../src/settings.ts";
import {
  copyright,
  crates,
  type Ingredient,
  npmPackages,
  sbom,
} from "../../scripts/package/ingredients.ts";
import { ctlPage, daemonPage } from "../../scripts/package/manual.ts";
import { Scratch } from "../support/scratch.ts";

Deno.test("the daemon's man page has every setting of its help, and another help is no silence", () => {
  const page = daemonPage(helpText());
  for (const { variable, fallback } of allSettings()) {
    ok(page.includes(`.B ${variable}=${fallback.replaceAll("-", "\\-")}\n`), variable);
  }
  match(page, /^\.TH GUESTD 8 /);
  match(page, /^\.SH SYNOPSIS\nguestd \S.*\\-\\-help.*\]\n\.SH /m);
  throws(() => daemonPage("guestd: a daemon"), /its help has another form/);
});

Deno.test("guestctl's man page has each of its commands, as roff shows it", () => {
  const help =
    "Usage: guestctl\n\nCommands:\n  run [options]  runs\n                 it\n  cp <a>  copies\n  help  helps\n\nEnd";
  const page = ctlPage(help, "1.2.3", (name) => `Usage: ${name} -x\n.dot \\n`);
  deepStrictEqual(Array.from(page.matchAll(/^\.SS (.+)$/gm), ([, name]) => name), ["run", "cp"]);
  match(page, /^Usage: run \\-x\n\\&\.dot \\en$/m);
  throws(() => ctlPage("Usage: guestctl", "1.2.3", () => ""), /lists no commands/);
});

Deno.test("crates are those that are linked in, and not those of tests and build scripts", () => {
  const one = (
    name: string,
    license: string | null,
  ): Parameters<typeof crates>[0]["packages"][number] => ({
    id: name,
    name,
    version: "1.0.0",
    license,
    manifest_path: `/crates/${name}/Cargo.toml`,
  });
  const to = (pkg: string, kind: string | null) => ({ pkg, dep_kinds: [{ kind }] });
  const found = crates({
    packages: [
      one("root", "MIT"),
      one("a", "MIT/Apache-2.0"),
      one("b", null),
      one("t", "MIT"),
      one("c", "MIT"),
    ],
    resolve: {
      root: "root",
      nodes: [
        { id: "root", deps: [to("a", null), to("t", "dev"), to("c", "build")] },
        { id: "a", deps: [to("b", null), to("root", null)] },
        { id: "t", deps: [] },
      ],
    },
  });
  deepStrictEqual(
    found.filter(({ name }) => name !== "root").map((
      { name, licence, directory },
    ) => [name, licence, directory]),
    [
      ["a", "MIT OR Apache-2.0", "/crates/a"],
      ["b", "NOASSERTION", "/crates/b"],
    ],
  );
});

Deno.test("npm packages are those of which a module is bundled, with the licence that they name", () => {
  using scratch = new Scratch();
  scratch.file("package.json", '{ "license": "ISC" }');
  const entry = (name: string) => ({ name, version: "2.0.0", localPath: scratch.path });
  const found = npmPackages({
    modules: [{ specifier: "npm:/@a/b@2.0.0/x.js" }, { specifier: "npm:/@a/b@2.0.0/y.js" }, {
      specifier: "file:///z.ts",
    }],
    npmPackages: { "@a/b@2.0.0": entry("@a/b"), "unused@2.0.0": entry("unused") },
  });
  deepStrictEqual(found.map(({ purl, version, licence }) => [purl, version, licence]), [[
    "pkg:npm/%40a/b",
    "2.0.0",
    "ISC",
  ]]);
  throws(() => npmPackages({ modules: [{ specifier: "npm:/c@1.0.0" }] }), /what c@1\.0\.0 is/);
});

Deno.test("the bill of materials names everything once, and each licence has its text", () => {
  using scratch = new Scratch();
  scratch.file("LICENSE-MIT", "the text\n");
  const all: Ingredient[] = ["a", "b"].map((name) => ({
    name,
    version: "1.0.0",
    licence: "MIT",
    purl: `pkg:cargo/${name}`,
    directory: scratch.path,
  }));
  const document = JSON.parse(sbom("0.1.0", "arm64", all)) as {
    bomFormat: string;
    components: { purl: string; licenses: unknown }[];
    dependencies: { dependsOn: string[] }[];
  };
  strictEqual(document.bomFormat, "CycloneDX");
  const purls = ["pkg:cargo/a@1.0.0", "pkg:cargo/b@1.0.0"];
  deepStrictEqual(document.components.map(({ purl }) => purl), purls);
  deepStrictEqual(document.components[0]?.licenses, [{ expression: "MIT" }]);
  deepStrictEqual(document.dependencies[0]?.dependsOn, purls);
  const text = copyright("ours", all);
  strictEqual(text.split("the text").length, 2);
  match(text, /Of a 1\.0\.0, b 1\.0\.0:\n\nthe text/);
});
