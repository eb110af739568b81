/** The commands of guestctl: their arguments, options, help and examples. */

import { Command, CommanderError } from "commander";
import { VERSION } from "../contract/version.ts";
import { bootstrap } from "./bootstrap.ts";
import { completions } from "./completions.ts";
import { DEFAULT_URL } from "./connection.ts";
import { copy } from "./copy.ts";
import { EXIT, type Failure, failureOf } from "./failure.ts";
import { ack, health, kill, ps, schema } from "./execs.ts";
import { forward } from "./forward.ts";
import { attach, run, wait } from "./run.ts";
import { shell } from "./shell.ts";
import { top } from "./top.ts";

const ENVIRONMENT = `
Environment:
  GUESTCTL_URL          URL of the guest, http:, vsock-unix:PATH:PORT or vsock:CID:PORT (${DEFAULT_URL})
  GUESTCTL_TOKEN        its token
  GUESTCTL_TOKEN_FILE   a file that holds it

Exit codes: those of commands that were run or followed; 128 and the signal's number where one
ended them; 127 where there is no such program; 125 where guestctl itself could not go on.`;

/** Everything that guestctl can do. \`ended\` gets the exit code of what was done. */
function makeProgram(ended: (code: number) => void): Command {
  const program = new Command("guestctl")
    .description("Drives a guest: commands, files, ports.")
    .version(VERSION)
    .enablePositionalOptions()
    .addHelpText("after", ENVIRONMENT);

  /** A command of its own, with what all have. */
  const command = (usage: string, about: string, example: string): Command =>
    program.command(usage)
      .summary(about)
      .description(about)
      .option("--url <url>", "URL of the guest, http:, vsock-unix:PATH:PORT or vsock:CID:PORT")
      .option("--token-file <file>", "a file that holds its token")
      .addHelpText("after", `\nExample:\n  guestctl ${example}`);
  /** What a command does, and its exit code. */
  const does = <A extends unknown[]>(act: (...args: A) => Promise<number>) => async (...args: A) =>
    ended(await act(...args));
  const collect = (word: string, before: readonly string[] = []): readonly string[] => [
    ...before,
    word,
  ];

  command(
    "run [program...]",
    "runs a command and gives its output and exit code",
    "run -e CI=1 -w /src -- make test",
  )
    .passThroughOptions()
    .option("-c, --command <line>", "a line for the guest's shell, instead of a program")
    .option("-e, --env <name=value>", "a variable; NAME alone takes yours", collect)
    .option("-w, --workdir <directory>", "where it runs")
    .option("-u, --user <uid[:gid]>", "who runs it, by number")
    .option("-t, --timeout <seconds>", "when it is killed")
    .option("-i, --interactive", "gives it what comes on stdin")
    .option("--id <id>", "the id under which the guest knows it")
    .option("--detach", "prints the id and leaves")
    .option("--detach-on-interrupt", "Ctrl-C leaves it running and says how to come back")
    .action(does(run));
  command("attach <id>", "follows a command that runs or ran", "attach --offset 1000 job-1")
    .option("--offset <bytes>", "first byte that is wanted")
    .action(does(attach));
  command("wait <id>", "waits for a command and gives its exit code", "wait job-1")
    .option("--json", "prints its outcome")
    .action(does(wait));
  command("kill <id...>", "ends commands with all of their process groups", "kill job-1 job-2")
    .option("--json", "prints who lived")
    .action(does(kill));
  command("ack <id>", "takes a result over: prints it, and the guest forgets it", "ack job-1")
    .option("--json", "prints all of it")
    .action(does(ack));
  command("ps", "lists commands and their live processes", "ps --json")
    .option("--json", "prints JSON")
    .action(does(ps));
  command("shell", "opens an interactive shell on a terminal of the guest", "shell -u 1000")
    .option("-u, --user <uid>", "who runs it, by number")
    .action(does(shell));
  command(
    "cp <source> <target>",
    "copies files and directories; the guest's are guest:PATH, - is a pipe",
    "cp ./src guest:/project",
  )
    .action(does(copy));
  command(
    "forward <way...>",
    "leads local ports to ports of the guest: [ADDRESS:]PORT:PORT",
    "forward 8080:80",
  )
    .option("--identity <file>", "proves and encrypts, with what bootstrap stored")
    .action(does(forward));
  command(
    "bootstrap",
    "gives a new guest its token: yours, or a new one that it prints",
    "bootstrap -e CI=1 >token",
  )
    .option("-e, --env <name=value>", "a variable of every command", collect)
    .option("--identity <file>", "gives it an identity too, and stores yours in that file")
    .option("--json", "prints JSON")
    .action(does(bootstrap));
  command("health", "prints how the guest is", "health").action(does(health));
  command("schema", "prints what the guest publishes of itself", "schema").action(does(schema));
  command("top", "shows commands, processes, disk and hooks, until Ctrl-C", "top").action(
    does(top),
  );
  program.command("completions <shell>")
    .summary("prints completions for bash, zsh or fish")
    .description("Prints completions for bash, zsh or fish.")
    .addHelpText("after", "\nExample:\n  source <(guestctl completions bash)")
    .action((name: string) => {
      Deno.stdout.writeSync(new TextEncoder().encode(completions(program, name)));
    });
  return program;
}

/** Runs what the arguments say; the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  let code: number = EXIT.ok;
  const program = makeProgram((ended) => code = ended);
  // One sentence for what was mistyped, and no exit but the one below.
  const quiet = (command: Command): void => {
    command.exitOverride().configureOutput({ outputError: () => {} });
    command.commands.forEach(quiet);
  };
  quiet(program);
  try {
    await program.parseAsync(args, { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return mistyped(error);
    return told(failureOf(error, Deno.env.get("GUESTCTL_URL") ?? DEFAULT_URL));
  }
}

function mistyped({ exitCode, code, message }: CommanderError): number {
  if (exitCode === 0) return EXIT.ok;
  // Without any command the help was shown.
  if (code === "commander.help") return EXIT.own;
  const said = message.replace(/^error: /, "").replaceAll("\n", " ");
  console.error(`guestctl: ${said}; guestctl help tells more`);
  return EXIT.own;
}

function told({ message, code }: Failure): number {
  if (message !== "") console.error(`guestctl: ${message}`);
  return code;
}
