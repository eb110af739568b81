import { strictEqual } from "node:assert/strict";
import { command } from "../support/command.ts";
import { Daemon, LAUNCHER } from "../support/daemon.ts";
import { Scratch } from "../support/scratch.ts";
import { sourceUrl } from "../support/source_files.ts";

const WITH_API_TOOLS = sourceUrl("scripts/with_api_tools").pathname;

Deno.test("a Python client made of the OpenAPI document starts a command, acks it and moves a tree", async () => {
  using scratch = new Scratch();
  const ran = async (program: string, ...args: readonly string[]): Promise<string> => {
    const { code, out, said } = await command(program, args, {
      cwd: scratch.path,
      signal: AbortSignal.timeout(120_000),
    });
    strictEqual(code, 0, `${program} ${args.join(" ")}\n${out}\n${said}`);
    return out;
  };
  scratch.file("openapi.json", await ran(LAUNCHER, "--print-openapi"));
  const python = [WITH_API_TOOLS, "python3"] as const;
  const options = { path: "openapi.json", meta: "none", "output-path": "guestd_client" };
  await ran(
    ...python,
    ...["-m", "openapi_python_client", "generate", "--fail-on-warning"],
    ...Object.entries(options).map(([name, value]) => `--${name}=${value}`),
    `--config=${sourceUrl("tests/api/client_config.yaml").pathname}`,
  );
  scratch.file("use.py", Deno.readTextFileSync(sourceUrl("tests/api/python_client.py")));
  await using daemon = await Daemon.start();
  strictEqual(await ran(...python, "use.py", daemon.url, scratch.path), "all of it works");
});
