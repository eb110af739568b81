import { deepStrictEqual, match, notStrictEqual, strictEqual } from "node:assert/strict";
import { within } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { Scratch } from "../support/scratch.ts";
import { readSource, sourceUrl } from "../support/source_files.ts";
import { withStarted } from "../support/with_daemon.ts";

/** Where the documents have their daemon and their files. */
const DOCUMENTED = { daemon: "127.0.0.1:9000", directory: "/tmp/guestd-session" };

/** The commands of the README's session, and all that it shows: each command behind its prompt, and what it prints. */
function session(): { readonly commands: readonly string[]; readonly shown: string } {
  const blocks = readSource("README.md").matchAll(/^```console\n(.*?)^```$/gms);
  const shown = Array.from(blocks, ([, block = ""]) => block).join("");
  const commands = Array.from(shown.matchAll(/^\$ (.*)$/gm), ([, command = ""]) => command);
  return { commands, shown };
}

/** The guide's commands, in their order; what needs another user than this one is left out. */
function guide(): string[] {
  const lines = readSource("docs/guide.md").matchAll(
    /^ {4}((?:ask|tar|curl|\.tools\/bin\/deno) .*)$/gm,
  );
  const commands = Array.from(lines, ([, command = ""]) => command);
  return commands.filter((command) => Deno.uid() === 0 || !command.endsWith("# needs root"));
}

/** What a bash in the checkout prints that is given the commands, a prompt and the command before each. */
async function run(commands: readonly string[], daemon: Daemon, files: string): Promise<string> {
  const script = commands.map((command) => {
    const here = command.replaceAll(DOCUMENTED.daemon, `127.0.0.1:${daemon.port}`)
      .replaceAll(DOCUMENTED.directory, files);
    return `printf '%s\\n' '$ ${command.replaceAll("'", "'\\''")}'\n${here}\n`;
  });
  const child = new Deno.Command("bash", {
    args: ["-c", script.join("")],
    cwd: sourceUrl(""),
    stdin: "null",
    stderr: "inherit",
  });
  return new TextDecoder().decode((await within("the session", child.output())).stdout);
}

withStarted.test("the README's first session prints what it shows, and the guide goes on from there", async ({ daemon }) => {
  using files = new Scratch();
  const { commands, shown } = session();
  notStrictEqual(commands.length, 0);
  const printed = await run([...commands, ...guide()], daemon, files.path);

  strictEqual(printed.slice(0, shown.length), shown);
  const answers = printed.slice(shown.length).split(/^\$ /m).slice(1);
  deepStrictEqual(answers.map((answer) => answer.split("\n")[0]), guide());
  for (const answer of answers) {
    if (answer.startsWith(".tools/bin/deno ")) match(answer, /^closed with 1000$/m);
    else if (answer.startsWith("curl ")) match(answer, /^docs\/guide\.md$/m);
    else if (/^ask .*\| decode\n/.test(answer)) match(answer, /^\{"exit_code":0,/m);
    else match(answer, / {2}\[2..\]\n$| # ([45]..)\n.* {2}\[\1\]\n$/s);
  }
  strictEqual(await daemon.end(), 0);
});
