/**
 * Commands for tests, as shell scripts that need nothing but sh and coreutils. Each says `ready` when it is in the
 * state that it is for, and then blocks without burning time: on its stdin where it has one, for ever otherwise.
 */

/** Says ready, then ends with its stdin (`stdin: "piped"`), with exit code 0. */
export const UNTIL_EOF = "echo ready; cat >/dev/null";

/** Says ready, then repeats each line it is given, to its stdout. */
export const ECHO_LINES = "echo ready; while IFS= read -r line; do printf '%s\\n' \"$line\"; done";

/** Says ready, then stays until a signal ends it. */
export const BLOCK = "echo ready; exec sleep infinity";

/** Says ready, then stays, and SIGTERM does not end it. */
export const IGNORE_TERM = "trap '' TERM; echo ready; exec sleep infinity";

/** Catches SIGTERM and exits with 7. */
export const EXIT_7_ON_TERM =
  "trap 'exit 7' TERM; echo ready; sleep infinity & while :; do wait; done";

/** The leader says ready and stays, and so does a child of its group that SIGTERM does not end. */
export const STUBBORN_GRANDCHILD =
  "(trap '' TERM; echo ready; exec sleep infinity) & exec sleep infinity";

/** The leader exits at once with 3; a child of its group that SIGTERM does not end holds no pipe and stays. */
export const ORPHANED_STUBBORN_GRANDCHILD =
  "trap '' TERM; sleep infinity >/dev/null 2>&1 </dev/null & echo ready; exit 3";

/** The leader exits at once; a child in the background holds the output pipes. */
export const BACKGROUND_HOLDS_PIPES = "sleep infinity & echo ready";

/** Exactly `size` bytes of `y` and newlines on stdout, as fast as they are read. */
export function flood(size: number): string {
  return `yes | head -c ${size}`;
}
