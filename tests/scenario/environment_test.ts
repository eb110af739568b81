import { deepStrictEqual } from "node:assert/strict";
import { DEFAULT_PATH } from "../../src/exec/launch.ts";
import { Daemon, type ExecOptions } from "../support/daemon.ts";

/** The environment that a command sees, as env(1) prints it. */
async function environmentOf(daemon: Daemon, options: ExecOptions = {}): Promise<string[]> {
  const { stdout } = await daemon.outcome(await daemon.exec(["/usr/bin/env", "-0"], options));
  return stdout.split("\0").filter((line) => line !== "").sort();
}

/** name, uid and home of the test's own user, as getent(1) has it. */
async function self(): Promise<{ name: string; home: string; shell: string }> {
  const output = await new Deno.Command("getent", { args: ["passwd", String(Deno.uid())] })
    .output();
  const [name = "", , , , , home = "", shell = ""] = new TextDecoder().decode(output.stdout).trim()
    .split(":");
  return { name, home, shell };
}

Deno.test("a command sees the defaults of its user and nothing of the daemon's environment", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { SECRET: "s", HOME: "/nowhere" } });
  const { name, home, shell } = await self();
  deepStrictEqual(await environmentOf(daemon), [
    `HOME=${home}`,
    `LOGNAME=${name}`,
    `PATH=${DEFAULT_PATH}`,
    `SHELL=${shell}`,
    `USER=${name}`,
  ]);
});
