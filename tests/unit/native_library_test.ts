import { throws } from "node:assert/strict";
import { ABI_VERSION, openLibrary } from "../../src/native/library.ts";
import { SYMBOLS } from "../../src/native/symbols.ts";
import { output } from "../support/command.ts";
import { Scratch } from "../support/scratch.ts";

/** A library with every symbol of ours, whose border has the version that is given. */
async function libraryOfVersion(directory: string, version: number): Promise<string> {
  const source = `${directory}/stub.c`;
  const stubs = Object.keys(SYMBOLS).map((name) =>
    `int ${name}(void) { return ${name === "guestd_abi_version" ? version : 0}; }`
  );
  await Deno.writeTextFile(source, stubs.join("\n"));
  const path = `${directory}/stub-${version}.so`;
  output("cc", "-shared", "-fPIC", "-o", path, source);
  return path;
}

Deno.test("a library that speaks another version of the border is refused, its own is opened", async () => {
  using scratch = new Scratch();
  const directory = scratch.path;
  const other = await libraryOfVersion(directory, ABI_VERSION + 1);
  throws(() => openLibrary(other), /speaks version .* of the border/);
  openLibrary(await libraryOfVersion(directory, ABI_VERSION)).close();
});
