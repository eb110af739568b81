/**
 * A daemon that cannot outlive the program that started it.
 *
 * It hangs on a tether: a shell that ends it as soon as the pipe from this process closes, however this process
 * ends, also by SIGKILL.
 *
 * @module
 */

/** Where the checkout lies, with a slash at its end. */
export const ROOT = new URL("../", import.meta.url).pathname;

/** Where the daemon's log goes, from the root of the repository. */
export const LOG_FILE = ".tools/log/demo.log";

// $0 is the launcher. With `set -m` the daemon is a process group of its own: Ctrl-C reaches the program alone,
// which then ends the daemon in order. `read` returns when nobody holds the other end of fd 3 any more.
const TETHER = `
exec 3<&0 </dev/null
set -m
"$0" >/dev/null 3<&- &
daemon=$!
trap '' HUP INT TERM
echo "$daemon"
exec >/dev/null 2>&1
read -r -u 3
kill -TERM "$daemon"
wait "$daemon"
`;

/** A daemon on its tether, listening on a free port of 127.0.0.1. */
export class TetheredDaemon implements AsyncDisposable {
  /** Resolves with the port once it listens, rejects if it ends before. */
  readonly port: Promise<number>;
  /** Resolves when the daemon has ended, or the tether has: neither is wanted before this is disposed of. */
  readonly ended: Promise<void>;
  readonly #tether: Deno.ChildProcess;
  readonly #daemonPid: Promise<string>;
  readonly #logged: Promise<void>;

  /** Starts it with this process's environment; of settings it has its defaults and those that are given. */
  constructor(settings: Readonly<Record<string, string>> = {}) {
    const others = Object.entries(Deno.env.toObject()).filter(([name]) =>
      !name.startsWith("GUESTD_")
    );
    this.#tether = new Deno.Command("bash", {
      args: ["-c", TETHER, `${ROOT}scripts/guestd`],
      // Out of this process's group and session: a SIGKILL to the group would take the tether along.
      detached: true,
      clearEnv: true,
      env: { ...Object.fromEntries(others), ...settings, GUESTD_LISTEN: "127.0.0.1:0" },
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const listening = Promise.withResolvers<number>();
    this.port = listening.promise;
    this.#daemonPid = new Response(this.#tether.stdout).text();
    this.#logged = this.#keepLog(listening.resolve);
    this.ended = Promise.race([this.#logged, this.#tether.status.then(() => {})]);
    this.ended.finally(() =>
      listening.reject(new Error(`Cannot start the daemon: see ${LOG_FILE}`))
    );
  }

  async #keepLog(listening: (port: number) => void): Promise<void> {
    Deno.mkdirSync(`${ROOT}.tools/log`, { recursive: true });
    using log = Deno.openSync(ROOT + LOG_FILE, { create: true, write: true, truncate: true });
    let line = "";
    for await (const text of this.#tether.stderr.pipeThrough(new TextDecoderStream())) {
      log.writeSync(new TextEncoder().encode(text));
      const lines = (line + text).split("\n");
      line = lines.pop() ?? "";
      for (const whole of lines) {
        const port = /"msg":"listening".*"port":([0-9]+)/.exec(whole)?.[1];
        if (port !== undefined) listening(Number(port));
      }
    }
  }

  /** Lets go, and waits until the daemon is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tether.stdin.close().catch(() => {});
    const { signal } = await this.#tether.status;
    // Somebody has killed the tether, so it cannot do its duty.
    if (signal !== null) {
      const pid = (await this.#daemonPid).trim();
      await new Deno.Command("bash", { args: ["-c", `kill -TERM ${pid}`] }).output();
    }
    await this.#logged;
  }
}
