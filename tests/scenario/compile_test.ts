import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { VERSION } from "../../src/contract/version.ts";
import { readSource } from "../support/source_files.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

async function command(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ code: number; said: string }> {
  const { code, stderr } = await new Deno.Command(program, {
    args: [...args],
    env,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).output();
  return { code, said: new TextDecoder().decode(stderr) };
}

/** Runs `build.sh compile` for this machine into `file`. */
async function compile(
  file: string,
  env: Readonly<Record<string, string>>,
): Promise<{ code: number; said: string }> {
  const arch = Deno.build.arch === "x86_64" ? "amd64" : "arm64";
  return await command(`${ROOT}build.sh`, ["compile", arch, file], env);
}

/** A program with the version as its only answer: what a denort starts is beyond it. */
async function makeStandIn(directory: string, answer: string): Promise<string> {
  const source = `${directory}/stand_in.c`;
  const program = `${directory}/stand_in`;
  await Deno.writeTextFile(source, `#include <stdio.h>\nint main(void) { puts("${answer}"); }\n`);
  const { code, said } = await command("cc", ["-o", program, source]);
  if (code !== 0) throw new Error(`Cannot make a stand-in for denort: ${said}`);
  return program;
}

/** Where `part` begins in `whole`, or -1. */
function indexOf(whole: Uint8Array, part: Uint8Array): number {
  const first = part[0] ?? 0;
  for (let at = whole.indexOf(first); at !== -1; at = whole.indexOf(first, at + 1)) {
    if (part.every((byte, offset) => whole[at + offset] === byte)) return at;
  }
  return -1;
}

Deno.test("compile embeds the library and the launcher's permissions in one file", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const denort = await makeStandIn(directory, VERSION);
    const file = `${directory}/guestd`;
    const { code, said } = await compile(file, { DENORT_BIN: denort });
    strictEqual(code, 0, said);
    const bytes = await Deno.readFile(file);
    ok(indexOf(bytes, await Deno.readFile(`${ROOT}dist/libguestd.so`)) > 0);
    const text = new TextDecoder("latin1").decode(bytes);
    const allowed = Array.from(
      text.matchAll(/"allow_(?!import)([a-z]+)":\[([^\]]*)\]/g),
      ([, what = "", values = ""]) =>
        `--allow-${what}${values === "" ? "" : `=${values.replaceAll('"', "")}`}`,
    );
    const launcher = readSource("scripts/guestd").match(/--allow-\S+/g) ?? [];
    deepStrictEqual(allowed.toSorted(), launcher.toSorted());
    ok(text.includes('"deny_import":[]'));
    ok(text.includes('"allow_run":null'));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("compile refuses a DENORT_BIN that cannot be one, with a sentence and code 2", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const file = `${directory}/guestd`;
    const other = await makeStandIn(directory, "something else");
    const cases: [string, RegExp][] = [
      [other, /does not run: is DENORT_BIN the denort of Deno/],
      ["/etc/passwd", /DENORT_BIN is no program for/],
      ["/nowhere", /DENORT_BIN names no file that can be read/],
    ];
    for (const [denort, sentence] of cases) {
      const { code, said } = await compile(file, { DENORT_BIN: denort });
      strictEqual(code, 2, said);
      match(said, sentence);
    }
    deepStrictEqual([...Deno.readDirSync(directory)].filter(({ name }) => name === "guestd"), []);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
