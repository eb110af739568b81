/**
 * `./build.sh demo`: a guided tour of a real daemon on a free port, which then serves until interrupted.
 *
 * @module
 */

import { LOG_FILE, ROOT, TetheredDaemon } from "./tethered_daemon.ts";

const HOOK_PREFIX = "/platform/runtime/v1";
/** Beside the log, where a demo may leave something. */
const TREE = `${ROOT}.tools/log/demo-tree`;
const POEM = "the first line\nthe second line\nthe third line\n";
const SCRIPT =
  "for n in 1 2 3 4; do echo \"tick $n\"; sleep 0.4; done; echo 'and a word on stderr' >&2; exit 7";

/** Asks one daemon, and tells the reader of each request and the status of its answer. */
class Guide {
  readonly base: string;
  readonly token: string = crypto.randomUUID();
  readonly #leaving: AbortSignal;

  /** Requests end with `leaving`, so that a daemon that has to stop need not wait for them. */
  constructor(base: string, leaving: AbortSignal) {
    this.base = base;
    this.#leaving = leaving;
  }

  async ask(method: string, path: string, body?: unknown): Promise<Response> {
    const response = await fetch(this.base + path, {
      method,
      headers: /^\/v1\/(exec|fs)\//.test(path) ? { authorization: `Bearer ${this.token}` } : {},
      body: typeof body === "string" || body === undefined ? body ?? null : JSON.stringify(body),
      signal: this.#leaving,
    });
    console.log(`   ${method} ${path} -> ${response.status}`);
    if (!response.ok) {
      const answer = await response.text();
      throw new Error(`Cannot go on: ${path} answered ${response.status}: ${answer}`);
    }
    return response;
  }

  async show(method: string, path: string, body?: unknown): Promise<void> {
    const answer = await (await this.ask(method, path, body)).text();
    if (answer !== "") console.log(`   ${answer.trimEnd()}`);
  }
}

/** Prints each event of the stream at the moment it arrives. */
async function follow(response: Response): Promise<void> {
  const started = performance.now();
  const body = response.body as ReadableStream<Uint8Array<ArrayBuffer>>;
  let rest = "";
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      const [, event = "", data = ""] = /^event: ?(.*)\ndata: ?(.*)$/.exec(frame) ?? [];
      if (event === "") continue;
      const seconds = ((performance.now() - started) / 1000).toFixed(2);
      console.log(
        `   ${seconds} s  ${event.padEnd(6)}  ${event === "output" ? decoded(data) : data}`,
      );
      if (event === "exit") return;
    }
  }
  throw new Error("Cannot go on: the stream ended without an exit");
}

/** An output event's data in words. */
function decoded(data: string): string {
  const { stream, offset, output } = JSON.parse(data);
  const text = new TextDecoder().decode(Uint8Array.fromBase64(output));
  return `${stream} at ${offset}: ${JSON.stringify(text)}`;
}

/** A path as a query parameter that a reader can read. */
function inQuery(path: string): string {
  return encodeURIComponent(path).replaceAll("%2F", "/");
}

/** The tour, from the first request to the invitation. */
async function tour(guide: Guide): Promise<void> {
  console.log(`1. A daemon, on a free port: ${guide.base}\n   Its log: ${LOG_FILE}`);

  console.log("\n2. The platform's run hook brings the bearer token and a base environment, once.");
  const env = { GREETING: "hello from the run hook" };
  const runHookPayload = JSON.stringify({ agent_token: guide.token, env });
  await guide.show("POST", `${HOOK_PREFIX}/run`, { runHookPayload });

  console.log(
    "\n3. A command starts under an id of our own, so that a retry would start nothing twice.",
  );
  const request = { exec_id: "demo", command: [SCRIPT], shell: true };
  await guide.show("POST", "/v1/exec/start", request);

  console.log("\n4. Its output, followed while it runs:");
  await follow(await guide.ask("GET", "/v1/exec/demo/stream"));

  console.log("\n5. The ack hands the whole result over and frees it:");
  await guide.show("POST", "/v1/exec/demo/ack");

  console.log("\n6. A file goes in whole or not at all, and lines of it come out:");
  const file = `/v1/fs/file?path=${inQuery(`${TREE}/poems/one`)}`;
  await guide.show("PUT", file, POEM);
  await guide.show("GET", `${file}&start_line=2&end_line=2`);

  console.log("\n7. A directory comes as an archive:");
  const tree = `/v1/fs/tar?path=${inQuery(TREE)}`;
  const archive = await (await guide.ask("GET", tree)).bytes();
  console.log(`   ${archive.length} bytes of tar`);

  console.log("\n8. Health, open to everyone:");
  await guide.show("GET", "/v1/health");

  console.log(invitation(guide));
}

/** Lines for the reader's own shell. */
function invitation({ base, token }: Guide): string {
  const start = `{"exec_id":"mine","command":["echo $GREETING; date; uname -a"],"shell":true}`;
  return `
Now yours. Paste this into another terminal:

  export G=${base} A='Authorization: Bearer ${token}'
  curl -sS -H "$A" "$G/v1/exec/start" -d '${start}'
  curl -sSN -H "$A" "$G/v1/exec/mine/stream"
  curl -sS -H "$A" "$G/v1/exec/mine"
  curl -sS -H "$A" -X POST "$G/v1/exec/mine/ack"
  curl -sS "$G/v1/schema"

Serving until Ctrl-C.`;
}

/** What ends a demo from outside, with the exit code that is customary then. */
class Interrupted extends Error {
  readonly code: number;

  constructor(signal: string, code: number) {
    super(`interrupted by ${signal}`);
    this.code = code;
  }
}

/** Rejects at the first signal that asks the demo to end; later ones do nothing, the end is on its way. */
function interruption(): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  const codes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
  for (const [name, code] of Object.entries(codes)) {
    Deno.addSignalListener(name as Deno.Signal, () => reject(new Interrupted(name, code)));
  }
  return promise;
}

/** Runs the demo and gives its exit code. */
async function main(): Promise<number> {
  const interrupted = interruption();
  const leaving = new AbortController();
  let serving = false;
  try {
    await using daemon = new TetheredDaemon();
    const crashed = daemon.ended.then(() => {
      throw new Error("Cannot go on: the daemon has ended");
    });
    const toured = daemon.port.then((port) =>
      tour(new Guide(`http://127.0.0.1:${port}`, leaving.signal))
    );
    try {
      await Promise.race([toured, crashed, interrupted]);
      serving = true;
      await Promise.race([crashed, interrupted]);
    } finally {
      leaving.abort();
    }
    return 0;
  } catch (error) {
    if (error instanceof Interrupted) {
      console.log(serving ? "\nThe daemon has stopped." : "\nInterrupted; the daemon has stopped.");
      return serving ? 0 : error.code;
    }
    console.error(`\n${error instanceof Error ? error.message : error}; see ${LOG_FILE}`);
    return 1;
  }
}

Deno.exit(await main());
