/**
 * `./build.sh demo`: a guided tour of a real daemon on a free port, which then serves until interrupted.
 *
 * The daemon hangs on a tether: a shell that ends it as soon as the pipe to this process closes. So it goes down
 * with the demo however that ends, also by SIGKILL.
 *
 * @module
 */

const ROOT = new URL("../", import.meta.url).pathname;
const LOG_FILE = ".tools/log/demo.log";
const HOOK_PREFIX = "/platform/runtime/v1";
const SCRIPT =
  "for n in 1 2 3 4; do echo \"tick $n\"; sleep 0.4; done; echo 'and a word on stderr' >&2; exit 7";

// $0 is the launcher. With `set -m` the daemon is a process group of its own: Ctrl-C reaches the demo alone, which
// then ends the daemon in order. `read` returns when nobody holds the other end of fd 3 any more.
const TETHER = `
exec 3<&0 </dev/null
set -m
"$0" 3<&- &
daemon=$!
trap '' HUP INT TERM
exec >/dev/null 2>&1
read -r -u 3
kill -TERM "$daemon"
wait "$daemon"
`;

/** Exit code, and why, of a demo that was told to stop. */
class Interrupted extends Error {
  readonly code: number;

  constructor(name: string, code: number) {
    super(`interrupted by ${name}`);
    this.code = code;
  }
}

const SIGNALS: ReadonlyMap<Deno.Signal, number> = new Map([
  ["SIGHUP", 129],
  ["SIGINT", 130],
  ["SIGTERM", 143],
]);

/** Rejects at the first signal that asks the demo to end. */
function interruption(): Promise<never> {
  return new Promise((_, reject) => {
    for (const [name, code] of SIGNALS) {
      Deno.addSignalListener(name, () => reject(new Interrupted(name, code)));
    }
  });
}

/** A daemon on its tether. */
class TetheredDaemon implements AsyncDisposable {
  /** Resolves with the port once it listens, rejects if it ends before. */
  readonly port: Promise<number>;
  /** Resolves when the daemon has ended and its log is complete. */
  readonly ended: Promise<void>;
  readonly #tether: Deno.ChildProcess;

  constructor() {
    const settings = Object.entries(Deno.env.toObject()).filter(([name]) =>
      !name.startsWith("GUESTD_")
    );
    this.#tether = new Deno.Command("bash", {
      args: ["-c", TETHER, `${ROOT}scripts/guestd`],
      clearEnv: true,
      env: { ...Object.fromEntries(settings), GUESTD_LISTEN: "127.0.0.1:0" },
      stdin: "piped",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const listening = Promise.withResolvers<number>();
    this.port = listening.promise;
    this.ended = this.#keepLog(listening.resolve).finally(() =>
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
    await this.#tether.status;
    await this.ended;
  }
}

/** One request, told to the reader with its answer's status. */
async function ask(
  base: string,
  token: string,
  method: string,
  path: string,
  body?: unknown,
): Promise<Response> {
  const response = await fetch(base + path, {
    method,
    headers: token === "" ? {} : { authorization: `Bearer ${token}` },
    body: body === undefined ? null : JSON.stringify(body),
  });
  console.log(`   ${method} ${path} -> ${response.status}`);
  if (!response.ok) {
    throw new Error(
      `Cannot go on: ${method} ${path} answered ${response.status}: ${await response.text()}`,
    );
  }
  return response;
}

/** Prints each event of the stream at the moment it arrives. */
async function follow(body: ReadableStream<Uint8Array>): Promise<void> {
  const started = performance.now();
  let rest = "";
  for await (
    const text of body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>)
  ) {
    const frames = (rest + text).split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      const [, event = "", data = ""] = /^event: ?(.*)\ndata: ?(.*)$/.exec(frame) ?? [];
      if (event === "") continue;
      const fields = JSON.parse(data);
      const told = event === "output"
        ? `${fields.stream} at ${fields.offset}: ${
          JSON.stringify(new TextDecoder().decode(Uint8Array.fromBase64(fields.output)))
        }`
        : data;
      const seconds = ((performance.now() - started) / 1000).toFixed(2);
      console.log(`   ${seconds} s  ${event.padEnd(6)}  ${told}`);
      if (event === "exit") return;
    }
  }
  throw new Error("Cannot go on: the stream ended without an exit");
}

/** The tour. */
async function tour(daemon: TetheredDaemon): Promise<void> {
  const base = `http://127.0.0.1:${await daemon.port}`;
  console.log(`1. A daemon, on a free port: ${base}\n   Its log: ${LOG_FILE}`);

  const token = crypto.randomUUID();
  console.log("\n2. The platform's run hook brings the bearer token and a base environment, once.");
  const payload = JSON.stringify({
    agent_token: token,
    env: { GREETING: "hello from the run hook" },
  });
  await (await ask(base, "", "POST", `${HOOK_PREFIX}/run`, { runHookPayload: payload })).body
    ?.cancel();

  console.log(
    "\n3. A command starts under an id of our own, so that a retry would start nothing twice.",
  );
  const start = { exec_id: "demo", command: [SCRIPT], shell: true };
  console.log(`   ${await (await ask(base, token, "POST", "/v1/exec/start", start)).text()}`);

  console.log("\n4. Its output, followed while it runs:");
  const stream = await ask(base, token, "GET", "/v1/exec/demo/stream");
  if (stream.body !== null) await follow(stream.body);

  console.log("\n5. The ack hands the whole result over and frees it:");
  const outcome = await (await ask(base, token, "POST", "/v1/exec/demo/ack")).text();
  console.log(`   ${outcome}`);

  console.log("\n6. Health, open to everyone:");
  console.log(`   ${await (await ask(base, "", "GET", "/v1/health")).text()}`);
  console.log(invitation(base, token));
}

/** Lines for the reader's own shell. */
function invitation(base: string, token: string): string {
  return `
Now yours. Paste this into another terminal:

  export G=${base} A='Authorization: Bearer ${token}'
  curl -sS -H "$A" "$G/v1/exec/start" -d '{"exec_id":"mine","command":["echo $GREETING; date; uname -a"],"shell":true}'
  curl -sSN -H "$A" "$G/v1/exec/mine/stream"
  curl -sS -H "$A" "$G/v1/exec/mine"
  curl -sS -H "$A" -X POST "$G/v1/exec/mine/ack"
  curl -sS "$G/v1/schema"

Serving until Ctrl-C.`;
}

/** Runs the demo; the exit code. */
async function main(): Promise<number> {
  const interrupted = interruption();
  // Raced below. One that comes while the daemon is being let go of changes nothing any more.
  interrupted.catch(() => {});
  let serving = false;
  try {
    await using daemon = new TetheredDaemon();
    const crashed = daemon.ended.then(() => {
      throw new Error(`Cannot go on: the daemon has ended, see ${LOG_FILE}`);
    });
    crashed.catch(() => {});
    daemon.port.catch(() => {});
    await Promise.race([tour(daemon), crashed, interrupted]);
    serving = true;
    await Promise.race([crashed, interrupted]);
    return 0;
  } catch (error) {
    if (!(error instanceof Interrupted)) {
      console.error(error instanceof Error ? error.message : error);
      return 1;
    }
    console.log(serving ? "\nThe daemon has stopped." : "\nInterrupted; the daemon has stopped.");
    return serving ? 0 : error.code;
  }
}

Deno.exit(await main());
