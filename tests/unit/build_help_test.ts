import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { Scratch } from "../support/scratch.ts";
import { readSource, sourceUrl } from "../support/source_files.ts";

/** A checkout in which nothing is built. */
function checkout(): Scratch {
  const scratch = new Scratch();
  for (const name of ["build.sh", "scripts", "image", "docs"]) {
    const { code } = new Deno.Command("cp", {
      args: ["-r", sourceUrl(name).pathname, scratch.join(name)],
    }).outputSync();
    strictEqual(code, 0);
  }
  return scratch;
}

/** What a program prints that finds no other one but the shell's everyday tools. */
async function printed(program: string, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args: [...args],
    clearEnv: true,
    env: { PATH: "/usr/bin:/bin" },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  deepStrictEqual([code, decoder.decode(stderr)], [0, ""], args.join(" "));
  return decoder.decode(stdout);
}

function files(scratch: Scratch): string[] {
  return [...Deno.readDirSync(scratch.path)].map(({ name }) => name).toSorted();
}

Deno.test("every command answers --help and -h by its line and its arguments, and does nothing else", async () => {
  using scratch = checkout();
  const before = files(scratch);
  const commands = Array.from(
    readSource("build.sh").matchAll(/^ {2}"([a-z-]+)\|/gm),
    ([, name = ""]) => name,
  );
  strictEqual(commands.length >= 13, true);
  const build = scratch.join("build.sh");
  for (const command of commands) {
    const help = await printed(build, [command, "--help"]);
    match(help, new RegExp(`^usage: ./build\\.sh ${command}( .+)?\n\n.{20}`));
    strictEqual(await printed(build, [command, "arm64", "-h"]), help);
    match(await printed(build, ["help"]), new RegExp(`^ {2}${command} +.{20}`, "m"));
  }
  match(await printed(build, ["image", "-h"]), /\[ARCH\] \[--debian\] \[--fresh\]/);
  match(await printed(build, ["run", "--help"]), /^ {2}GUESTD_DRAIN_SECS=5\n {6}\S/m);
  const boot = await printed(scratch.join("image/boot.sh"), ["--help"]);
  match(boot, /image\/boot\.sh \[amd64\|arm64\][^]*GUESTD_VM_MEMORY/);
  strictEqual(await printed(scratch.join("image/boot.sh"), ["arm64", "-h"]), boot);
  deepStrictEqual(files(scratch), before);
});
