import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { VERSION } from "../../src/contract/version.ts";
import { indexOf } from "../support/bytes.ts";
import { command, type Ended, output } from "../support/command.ts";
import { closedPort } from "../support/closed_port.ts";
import { Daemon } from "../support/daemon.ts";
import { readSource } from "../support/source_files.ts";
import { Scratch } from "../support/scratch.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** The longest that a compile may take here, in milliseconds. */
const COMPILE_MS = 60_000;

const ARCH = Deno.build.arch === "x86_64" ? "amd64" : "arm64";

/** Runs `build.sh compile` for this machine into `file`. */
async function compile(
  file: string,
  env: Readonly<Record<string, string>>,
  cwd: string = Deno.cwd(),
): Promise<Ended> {
  const signal = AbortSignal.timeout(COMPILE_MS);
  return await command(`${ROOT}build.sh`, ["compile", ARCH, file], { env, cwd, signal });
}

/** A compile that has nothing but a proxy at `port` to fetch its denort through. */
async function compileThrough(
  port: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  using scratch = new Scratch();
  const directory = scratch.path;
  const proxy = `http://127.0.0.1:${port}`;
  const proxies = { HTTPS_PROXY: proxy, https_proxy: proxy, NO_PROXY: "", no_proxy: "" };
  return await compile(`${directory}/guestd`, { DENORT_BIN: "", ...proxies, ...env });
}

/** Whether a denort was fetched once, so that Deno needs no host for it. */
function denortIsCached(): boolean {
  const found = (directory: string): boolean => {
    try {
      return Deno.readDirSync(directory).some(({ name, isDirectory }) =>
        isDirectory ? found(`${directory}/${name}`) : name.startsWith("denort")
      );
    } catch {
      return false;
    }
  };
  return found(`${ROOT}.tools/deno_dir/dl`);
}

/** A program with the version as its only answer: what a denort starts is beyond it. */
function makeStandIn(scratch: Scratch, answer: string): string {
  const main = `#include <stdio.h>\nint main(void) { puts("${answer}"); }\n`;
  output("cc", "-o", scratch.join("stand_in"), scratch.file("stand_in.c", main));
  return scratch.join("stand_in");
}

Deno.test("compile embeds the library and the launcher's permissions in one file", async () => {
  using scratch = new Scratch();
  const directory = scratch.path;
  const denort = makeStandIn(scratch, VERSION);
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
  // Asked for more, the daemon would wait for an answer on its stdin.
  ok(text.includes('"prompt":false'));
  const flags = /"v8_flags":\[([^\]]*)\]/.exec(text)?.[1] ?? "";
  const wanted = /--v8-flags=(\S+)/.exec(readSource("scripts/guestd"))?.[1]?.split(",") ?? [];
  ok(wanted.length > 0);
  for (const flag of wanted) ok(flags.includes(`"${flag}"`), `${flag} in ${flags}`);
});

Deno.test("compile takes a DENORT_BIN that is seen from the caller's directory", async () => {
  using scratch = new Scratch();
  const directory = scratch.path;
  makeStandIn(scratch, VERSION);
  const { code, said } = await compile("guestd", { DENORT_BIN: "stand_in" }, directory);
  strictEqual(code, 0, said);
  ok((await Deno.stat(`${directory}/guestd`)).isFile);
});

Deno.test("compile refuses a DENORT_BIN that cannot be one, with a sentence and code 2", async () => {
  using scratch = new Scratch();
  const directory = scratch.path;
  const file = `${directory}/guestd`;
  const other = makeStandIn(scratch, "something else");
  const program = await Deno.readFile(other);
  const spoiled = async (name: string, bytes: Uint8Array, mode = 0o755): Promise<string> => {
    await Deno.writeFile(`${directory}/${name}`, bytes, { mode });
    return `${directory}/${name}`;
  };
  const foreign = program.slice();
  // e_machine: the other of the two processors.
  foreign[18] = foreign[18] === 0x3e ? 0xb7 : 0x3e;
  const unlinked = program.slice();
  // e_phoff, e_shoff, e_phnum, e_shnum: an ELF header with nothing behind it that could be extended.
  unlinked.fill(0, 32, 48);
  unlinked.fill(0, 56, 62);
  const cases: [string, RegExp][] = [
    [other, /does not run: is DENORT_BIN the denort of Deno/],
    ["/etc/passwd", /DENORT_BIN is no program for/],
    [directory, /DENORT_BIN names no file that can be read/],
    ["/nowhere", /DENORT_BIN names no file that can be read/],
    [await spoiled("foreign", foreign), /DENORT_BIN is no program for/],
    [await spoiled("short", program.slice(0, program.length / 2)), /DENORT_BIN is cut short/],
    [await spoiled("header", program.slice(0, 20)), /DENORT_BIN is cut short/],
    [await spoiled("plain", program, 0o644), /DENORT_BIN is not executable/],
    [await spoiled("unlinked", unlinked), /cannot use DENORT_BIN|does not run/],
  ];
  for (const [denort, sentence] of cases) {
    const { code, said } = await compile(file, { DENORT_BIN: denort });
    strictEqual(code, 2, said);
    match(said, sentence);
  }
  deepStrictEqual([...Deno.readDirSync(directory)].filter(({ name }) => name === "guestd"), []);
});

Deno.test({
  name: "without DENORT_BIN and without Deno's host compile says what it needs, with code 2",
  ignore: denortIsCached(),
  async fn(): Promise<void> {
    using closed = await closedPort();
    const { code, said } = await compileThrough(closed.port);
    strictEqual(code, 2, said);
    match(said, /its host cannot be reached: name a file of it in DENORT_BIN/);
  },
});

Deno.test({
  name: "compile does not wait for a host that never answers, and leaves nothing behind",
  ignore: denortIsCached(),
  async fn(): Promise<void> {
    const silent = Deno.listen({ port: 0, hostname: "127.0.0.1" });
    const held: Deno.Conn[] = [];
    const accepting = (async () => {
      for await (const connection of silent) held.push(connection);
    })();
    const { code, said } = await compileThrough(silent.addr.port, { GUESTD_COMPILE_SECS: "2" });
    silent.close();
    await accepting;
    for (const connection of held) connection.close();
    ok(held.length > 0);
    strictEqual(code, 2, said);
    match(said, /its host has not given it within 2 s/);
    const left = [...Deno.readDirSync(`${ROOT}.tools`)].filter(({ name }) =>
      name.startsWith("compile.")
    );
    deepStrictEqual(left, []);
  },
});

Deno.test({
  name: "the compiled daemon serves, runs commands and ends, where DENORT_BIN is a denort",
  ignore: Deno.env.get("DENORT_BIN") === undefined,
  async fn(): Promise<void> {
    using scratch = new Scratch();
    const directory = scratch.path;
    const file = `${directory}/guestd`;
    const { code, said } = await compile(file, {});
    strictEqual(code, 0, said);
    // The program given takes the place of the launcher, which is its only argument.
    await using daemon = await Daemon.bootstrapped({ through: ["sh", "-c", 'exec "$0"', file] });
    const id = await daemon.exec("echo compiled");
    const rest = await daemon.follow(id);
    deepStrictEqual([rest.text(), rest.exit.exit_code], ["compiled\n", 0]);
  },
});
