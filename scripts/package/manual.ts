/**
 * Writes the man pages of guestd and guestctl, made of what they print for `--help`:
 * `manual.ts CHECKOUT DIRECTORY`, whose `man8` and `man1` they go to.
 *
 * @module
 */

/** What a program prints for these arguments. Throws where it fails. */
function help(program: string, ...args: string[]): string {
  // Another width of the terminal would be another page.
  const env = { NO_COLOR: "1", COLUMNS: "80" };
  const { success, stdout, stderr } = new Deno.Command(program, { args, env, stdin: "null" })
    .outputSync();
  const [out, said] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  if (!success) throw new Error(`Cannot ask ${program} for its help: ${said}`);
  return (out ?? "").trimEnd();
}

/** Text as roff has it: a backslash, and a dot or quote that begins a line, mean something there. */
function escaped(text: string): string {
  return text.replaceAll("\\", "\\e").replaceAll("-", "\\-").replace(/^([.'])/gm, "\\&$1");
}

/** Lines as they are. */
function verbatim(text: string): string {
  return `.nf\n${escaped(text)}\n.fi`;
}

function head(name: string, section: number, version: string, does: string): string {
  return [
    `.TH ${name.toUpperCase()} ${section} "" "guestd ${version}" "guestd"`,
    ".SH NAME",
    `${name} \\- ${does}`,
  ].join("\n");
}

/** The page of the daemon, whose help has its usage, a sentence, and a setting each two lines. */
export function daemonPage(text: string): string {
  const [title = "", usage = "", ...more] = text.split("\n\n");
  const version = /^guestd (\S+):/.exec(title)?.[1];
  // The help breaks a long usage into lines; roff breaks it anew.
  const call = /^Usage: ([^]+)$/.exec(usage)?.[1]?.replaceAll(/\n +/g, " ");
  const settings = more.pop()?.matchAll(/^ {2}(GUESTD_\S+)\n {6}(.+)$/gm);
  const rows = Array.from(
    settings ?? [],
    ([, name = "", does = ""]) => `.TP\n.B ${escaped(name)}\n${escaped(does)}`,
  );
  if (version === undefined || call === undefined || rows.length === 0) {
    throw new Error("Cannot make the manual of guestd: its help has another form");
  }
  return [
    head("guestd", 8, version, "guest execution daemon"),
    `.SH SYNOPSIS\n${escaped(call)}`,
    `.SH DESCRIPTION\n${escaped(more.join("\n.PP\n"))}`,
    `.SH ENVIRONMENT\n${rows.join("\n")}`,
    ".SH FILES\n.TP\n.I /etc/guestd.env\nThe settings that its service reads, one NAME=VALUE a line.",
    ".SH SEE ALSO\n.BR guestctl (1)\n",
  ].join("\n");
}

/** The page of guestctl: its help, then that of each command, as `ask` gives it. */
export function ctlPage(text: string, version: string, ask: (command: string) => string): string {
  const listed = /^Commands:\n([^]*?)\n\n/m.exec(text)?.[1] ?? "";
  const commands = Array.from(listed.matchAll(/^ {2}([a-z]+)/gm), ([, name = ""]) => name)
    .filter((name) => name !== "help");
  if (commands.length === 0) {
    throw new Error("Cannot make the manual of guestctl: its help lists no commands");
  }
  const sections = commands.map((name) => `.SS ${name}\n${verbatim(ask(name))}`);
  return [
    head("guestctl", 1, version, "drives a guest: commands, files, ports"),
    `.SH DESCRIPTION\n${verbatim(text)}`,
    `.SH COMMANDS\n${sections.join("\n")}`,
    ".SH SEE ALSO\n.BR guestd (8)\n",
  ].join("\n");
}

if (import.meta.main) {
  const [root = "", directory = ""] = Deno.args;
  const [daemon, ctl] = [`${root}/scripts/guestd`, `${root}/scripts/guestctl`];
  Deno.writeTextFileSync(`${directory}/man8/guestd.8`, daemonPage(help(daemon, "--help")));
  const version = help(ctl, "--version");
  const page = ctlPage(help(ctl, "--help"), version, (name) => help(ctl, name, "--help"));
  Deno.writeTextFileSync(`${directory}/man1/guestctl.1`, page);
}
