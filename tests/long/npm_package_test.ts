import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { command } from "../support/command.ts";
import { Daemon } from "../support/daemon.ts";
import { Scratch } from "../support/scratch.ts";
import { readSource, sourceUrl } from "../support/source_files.ts";

const ROOT = sourceUrl("").pathname;
const WITH_NODE = `${ROOT}scripts/with_node`;

/** A program of types alone: that it compiles shows that the package's are whole. */
const TYPED = `
import { type CommandOutput, Guest, type Health, type TreeEntry, Unreachable } from "@guestd/client";
const guest: Guest = new Guest("http://127.0.0.1:9000", { token: "t" });
export const output: Promise<CommandOutput> = guest.command("ls", { args: ["-l"], cwd: "/" }).output();
export const health: Promise<Health> = guest.health();
export const members: AsyncGenerator<TreeEntry, void, void> = guest.downloadTree("/tmp");
export const isThere = (error: unknown): boolean => !(error instanceof Unreachable);
// @ts-expect-error no such option
guest.command("ls", { arguments: [] });
`;

Deno.test("the npm package works in an empty Node project, its types included", async () => {
  using scratch = new Scratch();
  const { path } = scratch;
  const ran = async (program: string, ...args: string[]): Promise<string> => {
    const { code, out, said } = await command(program, args, {
      cwd: path,
      env: { HOME: path, npm_config_update_notifier: "false" },
      signal: AbortSignal.timeout(120_000),
    });
    strictEqual(code, 0, `${program} ${args.join(" ")}\n${out}\n${said}`);
    return out;
  };
  await ran(`${ROOT}build.sh`, "client");
  await ran(WITH_NODE, "npm", "pack", "--silent", `${ROOT}dist/npm`);
  const [archive = ""] = [...Deno.readDirSync(path)].map(({ name }) => name)
    .filter((name) => name.endsWith(".tgz"));
  scratch.file("package.json", '{ "private": true, "type": "module" }');
  await ran(WITH_NODE, "npm", "install", "--silent", "--no-audit", "--no-fund", `./${archive}`);
  const installed = [...Deno.readDirSync(scratch.join("node_modules"))].map(({ name }) => name);
  deepStrictEqual(installed.filter((name) => !name.startsWith(".")).toSorted(), [
    "@guestd",
    "@noble",
    "modern-tar",
  ]);

  await using daemon = await Daemon.start();
  scratch.file("use.mjs", readSource("tests/long/npm_package_use.mjs"));
  strictEqual(await ran(WITH_NODE, "node", "use.mjs", daemon.url), "all of it works");

  scratch.file("typed.ts", TYPED);
  const flags = [
    "--module",
    "nodenext",
    "--target",
    "esnext",
    "--strict",
    "--noEmit",
  ];
  const typescript = `npm:${JSON.parse(readSource("deno.json")).imports.typescript.slice(4)}/tsc`;
  await ran(Deno.execPath(), "run", "--quiet", "--allow-all", typescript, ...flags, "typed.ts");
});
