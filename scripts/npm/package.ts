/**
 * Writes package.json into a directory of compiled modules: name, version and dependencies as the sources have them.
 *
 * @module
 */

import { VERSION } from "../../src/contract/version.ts";

/** What the client imports of npm; deno.json pins them. */
const DEPENDENCIES = ["@noble/ciphers", "@noble/curves", "@noble/hashes", "modern-tar"];

const [directory = "."] = Deno.args;
const { imports, license } = JSON.parse(
  Deno.readTextFileSync(new URL("../../deno.json", import.meta.url)),
);
const dependencies = Object.fromEntries(
  DEPENDENCIES.map((name) => [name, imports[name].replace(`npm:${name}@`, "^")]),
);
const manifest = {
  name: "@guestd/client",
  version: VERSION,
  description: "A client of guestd: commands, files, trees and ports of a guest",
  license,
  type: "module",
  engines: { node: ">=22" },
  exports: { ".": { types: "./client/mod.d.ts", default: "./client/mod.js" } },
  sideEffects: false,
  dependencies,
};
Deno.writeTextFileSync(`${directory}/package.json`, JSON.stringify(manifest, null, 2) + "\n");
