/** Completions of commands and options, for the shells that people use. */

import { Failure } from "./failure.ts";

/** A command's name and its long options. */
interface Entry {
  readonly name: string;
  readonly about: string;
  readonly options: readonly string[];
}

/** What is completed: commands by their names, with their options. */
export interface Completable {
  /** They. */
  readonly commands: readonly {
    /** Its name. */
    name(): string;
    /** What it does, in a few words. */
    summary(): string;
    /** Its options. */
    readonly options: readonly { readonly long?: string | undefined }[];
  }[];
}

/** The script for `shell`, which is to be sourced. */
export function completions(program: Completable, shell: string): string {
  const entries = program.commands.map((command): Entry => ({
    name: command.name(),
    about: command.summary(),
    options: command.options.flatMap(({ long }) => long ? [long] : []),
  }));
  if (shell === "bash") return bash(entries);
  if (shell === "zsh") return zsh(entries);
  if (shell === "fish") return fish(entries);
  throw new Failure(`Cannot complete in '${shell}': there are bash, zsh and fish`);
}

function bash(entries: readonly Entry[]): string {
  const cases = entries.map(({ name, options }) => `    ${name}) words="${options.join(" ")}" ;;`);
  return `_guestctl() {
  local word=\${COMP_WORDS[COMP_CWORD]} words
  case \${COMP_WORDS[1]} in
${cases.join("\n")}
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then words="${entries.map(({ name }) => name).join(" ")}"; fi
  if [[ $COMP_CWORD -gt 1 && $word != -* ]]; then COMPREPLY=($(compgen -f -- "$word")); return; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o filenames -F _guestctl guestctl
`;
}

function zsh(entries: readonly Entry[]): string {
  const commands = entries.map(({ name, about }) => `    '${name}:${quoted(about)}'`);
  const cases = entries.map(({ name, options }) =>
    `    ${name}) compadd -- ${options.join(" ")} ;;`
  );
  return `#compdef guestctl
_guestctl() {
  local -a commands=(
${commands.join("\n")}
  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  if [[ $words[CURRENT] != -* ]]; then _files; return; fi
  case $words[2] in
${cases.join("\n")}
  esac
}
compdef _guestctl guestctl
`;
}

function fish(entries: readonly Entry[]): string {
  return entries.flatMap(({ name, about, options }) => [
    `complete -c guestctl -n __fish_use_subcommand -a ${name} -d '${quoted(about)}'`,
    ...options.map((option) =>
      `complete -c guestctl -n '__fish_seen_subcommand_from ${name}' -l ${option.slice(2)}`
    ),
  ]).join("\n") + "\n";
}

function quoted(text: string): string {
  return text.replaceAll("'", "’").replaceAll(":", "");
}
