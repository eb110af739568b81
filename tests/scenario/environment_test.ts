import { deepStrictEqual } from "node:assert/strict";
import { DEFAULT_PATH } from "../../src/exec/launch.ts";
import { output } from "../support/command.ts";
import { Daemon } from "../support/daemon.ts";

Deno.test("a command sees the defaults of its user and nothing of the daemon's environment", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { SECRET: "s", HOME: "/nowhere" } });
  const [name, , , , , home, shell] = output("getent", "passwd", String(Deno.uid())).split(":");
  const { stdout } = await daemon.outcome(await daemon.exec(["/usr/bin/env", "-0"]));
  deepStrictEqual(stdout.split("\0").sort(), [
    "",
    `HOME=${home}`,
    `LOGNAME=${name}`,
    `PATH=${DEFAULT_PATH}`,
    `SHELL=${shell}`,
    `USER=${name}`,
  ]);
});
