import { notStrictEqual, strictEqual } from "node:assert/strict";
import { PROTOCOL_VERSION, VERSION } from "../../src/contract/version.ts";
import { readSource } from "../support/source_files.ts";

Deno.test("deno.json, the crate and its lock file have the daemon's version", () => {
  strictEqual(JSON.parse(readSource("deno.json")).version, VERSION);
  const crate = /^\[package\]\nname = "guestd"\nversion = "([^"]+)"/m;
  strictEqual(crate.exec(readSource("native/Cargo.toml"))?.[1], VERSION);
  const locked = /^\[\[package\]\]\nname = "guestd"\nversion = "([^"]+)"/m;
  strictEqual(locked.exec(readSource("native/Cargo.lock"))?.[1], VERSION);
});

Deno.test("the version is a bare semantic one, and the changelog has a section for it", () => {
  notStrictEqual(/^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$/.exec(VERSION), null);
  strictEqual(readSource("CHANGELOG.md").includes(`\n## [${VERSION}]`), true);
});

Deno.test("the protocol's version is the 1 of /v1/", () => strictEqual(PROTOCOL_VERSION, "1"));
