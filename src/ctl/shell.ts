/** shell: an interactive shell on a terminal of the guest. */

import type { Guest } from "../client/mod.ts";
import { type Common, guestOf } from "./connection.ts";
import { EXIT, Failure } from "./failure.ts";
import { exitCodeOf, follow } from "./follow.ts";

/** Exit code of a guest without `script`, which nobody else uses for something. */
const NO_SCRIPT = 86;

/**
 * What makes a terminal in the guest: `script` of util-linux, which gives the shell's exit code with -e, or of busybox,
 * which does not know that.
 */
const MAKE_TERMINAL = `command -v script >/dev/null 2>&1 || exit ${NO_SCRIPT}
if script --version >/dev/null 2>&1; then exec script -qfec "$GUESTCTL_INNER" /dev/null; fi
exec script -qfc "$GUESTCTL_INNER" /dev/null`;

/** What runs on it: the size is set, and where the terminal is is left for later sizes. */
const INNER = `stty rows $GUESTCTL_ROWS cols $GUESTCTL_COLUMNS 2>/dev/null
tty >"$GUESTCTL_TTY"
unset GUESTCTL_INNER GUESTCTL_ROWS GUESTCTL_COLUMNS GUESTCTL_TTY
exec "\${SHELL:-/bin/sh}" -i`;

/** Opens a shell; its exit code. */
export async function shell(options: Common & { readonly user?: string }): Promise<number> {
  if (!Deno.stdin.isTerminal()) {
    throw new Failure("Cannot open a shell: stdin is no terminal; guestctl run -i takes a pipe");
  }
  const guest = guestOf(options);
  const id = `shell-${crypto.randomUUID()}`;
  const note = `/tmp/.guestctl-${crypto.randomUUID()}`;
  const { rows, columns } = Deno.consoleSize();
  const uid = options.user === undefined ? {} : { uid: uidOf(options.user) };
  await guest.shell(MAKE_TERMINAL, {
    id,
    stdin: "piped",
    ...uid,
    env: {
      TERM: Deno.env.get("TERM") ?? "dumb",
      GUESTCTL_INNER: INNER,
      GUESTCTL_ROWS: String(rows),
      GUESTCTL_COLUMNS: String(columns),
      GUESTCTL_TTY: note,
    },
  }).start();
  using _raw = raw();
  using _sizes = sizes(guest, note);
  const exit = await follow(guest, id, { stdin: true, owned: true });
  await guest.command("rm", { args: ["-f", note], stdout: "null", stderr: "null" }).output();
  await guest.forget(id).catch(() => {});
  if (exit.exit_code === NO_SCRIPT) {
    throw new Failure("Cannot open a shell: the guest has no script(1), of util-linux or busybox");
  }
  return exit.exit_code === EXIT.ok ? EXIT.ok : exitCodeOf(exit);
}

/** Keys go to the guest as they are pressed, Ctrl-C too, as long as this is there. */
function raw(): Disposable {
  Deno.stdin.setRaw(true);
  return { [Symbol.dispose]: () => Deno.stdin.setRaw(false) };
}

/** Tells the guest of each new size of the window. */
function sizes(guest: Guest, note: string): Disposable {
  const changed = (): void => {
    const { rows, columns } = Deno.consoleSize();
    const line = `stty -F "$(cat ${note})" rows ${rows} cols ${columns}`;
    guest.shell(line, { stdout: "null", stderr: "null" }).output().catch(() => {});
  };
  Deno.addSignalListener("SIGWINCH", changed);
  return { [Symbol.dispose]: () => Deno.removeSignalListener("SIGWINCH", changed) };
}

function uidOf(word: string): number {
  if (/^\d{1,10}$/.test(word)) return Number(word);
  throw new Failure(`Cannot open a shell as '${word}': a user is a UID`);
}
