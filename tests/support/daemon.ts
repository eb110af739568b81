/**
 * A real daemon for a test: the bundle, started as `build.sh run` starts it, on a free port.
 *
 * ```ts
 * await using daemon = await Daemon.start();
 * await daemon.bootstrap();
 * const id = await daemon.exec("echo hello");
 * ```
 *
 * At the end of the block it gets SIGTERM and has to exit with 0, whatever the test left running in it.
 */

import type { CommandOptions } from "../../src/client/command.ts";
import { execPath, type Outcome } from "../../src/client/exec_calls.ts";
import { Guest } from "../../src/client/guest.ts";
import type { RunOptions } from "../../src/client/hooks.ts";
import type { StdinResponse } from "../../src/contract/exec.ts";
import type { ProcGroup } from "../../src/contract/system.ts";
import { json, text } from "./answers.ts";
import { PATIENCE_MS, within } from "./await_event.ts";
import { CheckedTransport } from "./checked_transport.ts";
import { LogLines } from "./log_lines.ts";
import { fdCount, residentBytes, threadNames } from "./proc.ts";
import { Published, type PublishedDocument } from "./published.ts";
import { RawConnection, request } from "./raw_http.ts";
import { SseStream, type StreamRest } from "./sse.ts";

export { execPath } from "../../src/client/exec_calls.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** The launcher that every way of starting the daemon goes through, or the one of `build.sh coverage`. */
export const LAUNCHER = Deno.env.get("GUESTD_TEST_LAUNCHER") ?? `${ROOT}scripts/guestd`;

/** The hook prefix of a daemon that was not told otherwise. */
export const HOOK_PREFIX = "/platform/runtime/v1";

export interface DaemonOptions {
  /** The whole environment, besides a free port to listen on and a chatty log. */
  readonly env?: Readonly<Record<string, string>>;
  /** Arguments after the bundle. */
  readonly args?: readonly string[];
  /** Working directory; without one the test's own. */
  readonly cwd?: string;
  /** A program and its arguments to run the launcher with, such as `unshare --pid --fork`. */
  readonly through?: readonly string[];
}

/** A running daemon, the client library's way to it, and requests by hand for what that would not send or show. */
export class Daemon implements AsyncDisposable {
  readonly log: LogLines;
  readonly exited: Promise<Deno.CommandStatus>;
  readonly #child: Deno.ChildProcess;
  readonly #client = Deno.createHttpClient({});
  readonly #fetch: typeof fetch = (url, init) => fetch(url, { ...init, client: this.#client });
  #port = 0;
  #published: Published | undefined;
  #token: string | undefined;
  #guest: Guest | undefined;
  /** Once a test has ended the daemon itself, its exit code is that test's business. */
  #endedByTest = false;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.exited = child.status;
    this.log = new LogLines(child.stderr);
  }

  /** Starts one and waits until it listens. */
  static async start(options: DaemonOptions = {}): Promise<Daemon> {
    const [program = LAUNCHER, ...args] = [
      ...options.through ?? [],
      LAUNCHER,
      ...options.args ?? [],
    ];
    const child = new Deno.Command(program, {
      args,
      clearEnv: true,
      env: { GUESTD_LISTEN: "127.0.0.1:0", GUESTD_LOG: "debug", ...options.env },
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const daemon = new Daemon(child);
    try {
      const line = await daemon.log.until("the daemon listen", ({ msg }) => msg === "listening");
      daemon.#port = Number(line["port"]);
      daemon.#published = new Published(await json(await daemon.fetch("/v1/schema")));
      daemon.token = undefined;
      return daemon;
    } catch (error) {
      daemon.signal("SIGKILL");
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
  }

  static async bootstrapped(options: DaemonOptions = {}): Promise<Daemon> {
    const daemon = await Daemon.start(options);
    try {
      await daemon.bootstrap();
      return daemon;
    } catch (error) {
      await daemon[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** The process id: the launcher becomes the daemon, so they share it. Not with `through`. */
  get pid(): number {
    return this.#child.pid;
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** The token that the run hook installed; requests carry it once there is one. */
  get token(): string | undefined {
    return this.#token;
  }

  set token(token: string | undefined) {
    this.#token = token;
    const transport = new CheckedTransport(this.#fetch, this.#published);
    this.#guest = new Guest(this.url, { token, transport, retryMs: 0 });
  }

  /** What users drive a guest with. Every answer is held against the schema, and a failed connection is not tried again. */
  get guest(): Guest {
    if (this.#guest === undefined) throw new Error("Cannot ask the daemon: it does not listen yet");
    return this.#guest;
  }

  get authorization(): readonly ["Authorization", string] {
    return ["Authorization", `Bearer ${this.token}`];
  }

  /** A request as it is on the wire, with the token. */
  request(...[method, target, headers = [], body]: Parameters<typeof request>): Uint8Array {
    return request(method, target, [this.authorization, ...headers], body);
  }

  /** Posts the run hook and keeps the token for later requests. */
  async bootstrap(
    token: string = crypto.randomUUID(),
    more: Omit<RunOptions, "token"> = {},
  ): Promise<void> {
    await this.guest.hooks.run({ token, ...more });
    this.token = token;
  }

  /** Posts a lifecycle hook, without a token as the platform does. */
  async hook(name: string, body?: unknown): Promise<Response> {
    return await this.post(`${HOOK_PREFIX}/${name}`, body, { headers: { authorization: "" } });
  }

  /** Ends when the log has all that was told so far: its lines keep their order, and a hook adds one. */
  async logWritten(): Promise<void> {
    const marks = (): number => this.log.lines.filter((line) => line["hook"] === "ready").length;
    const before = marks();
    await text(await this.hook("ready"));
    await this.log.until("the line of the hook", () => marks() > before);
  }

  get document(): PublishedDocument {
    if (this.#published === undefined) throw new Error("Cannot see the schema: not fetched yet");
    return this.#published.document;
  }

  /**
   * Fetches a path with the token, if there is one; an `authorization` header that is given wins, empty none.
   * Throws where the answer is none that the daemon's schema announces.
   */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.token !== undefined && !headers.has("authorization")) {
      headers.set("authorization", `Bearer ${this.token}`);
    }
    if (headers.get("authorization") === "") headers.delete("authorization");
    const method = init.method ?? "GET";
    const answer = this.#fetch(this.url + path, { ...init, headers });
    const response = await within(`an answer to ${method} ${path}`, answer);
    return await this.#published?.checked(method, path, response) ?? response;
  }

  /** Posts bytes or a string as they are, anything else as JSON, undefined as no body. */
  async post(path: string, body?: unknown, init: RequestInit = {}): Promise<Response> {
    const raw = typeof body === "string" || body instanceof Uint8Array || body === undefined;
    return await this.fetch(path, {
      ...init,
      method: "POST",
      body: raw ? (body as BodyInit | undefined) ?? null : JSON.stringify(body),
    });
  }

  /** Starts a command, a string with the shell; gives its id. */
  async exec(command: string | readonly string[], options: CommandOptions = {}): Promise<string> {
    if (typeof command === "string") return await this.guest.shell(command, options).start();
    const [program = "", ...args] = command;
    return await this.guest.command(program, { ...options, args }).start();
  }

  /** Writes to stdin and, with `eof`, closes it. */
  async stdin(id: string, data: string | Uint8Array, eof = false): Promise<StdinResponse> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    return await this.guest.writeStdin(id, bytes, { eof });
  }

  async stream(id: string, offset?: number | bigint): Promise<SseStream> {
    return this.#sse(await this.#attach(id, offset));
  }

  /** Starts a script and reads its stream until it has said `ready`, and a newline. */
  async ready(
    script: string,
    options: CommandOptions = {},
  ): Promise<SseStream & { readonly id: string }> {
    const id = await this.exec(script, options);
    const stream = await this.stream(id);
    await stream.untilOutput("ready\n");
    return Object.assign(stream, { id });
  }

  /**
   * Follows the stream from the start to its end: the way to wait for a command. The bytes are taken as fast as they
   * come and looked at afterwards, so that a busy machine makes no gap. `attached` is called once the reader is.
   */
  async follow(id: string, attached: () => unknown = () => {}): Promise<StreamRest> {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>(
      undefined,
      undefined,
      new CountQueuingStrategy({ highWaterMark: Infinity }),
    );
    const copied = (await this.#attach(id)).pipeTo(writable);
    const both = Promise.all([copied, attached()]);
    await within("the end of the stream", both, 3 * PATIENCE_MS);
    await using stream = this.#sse(readable);
    return await stream.rest();
  }

  #sse(body: ReadableStream<Uint8Array>): SseStream {
    return new SseStream(body, (frame) => this.#published?.checkEvent(frame));
  }

  async #attach(id: string, offset?: number | bigint): Promise<ReadableStream<Uint8Array>> {
    const query = offset === undefined ? "" : `?offset=${offset}`;
    const response = await this.fetch(execPath(id, "stream") + query);
    if (response.status !== 200 || response.body === null) await text(response, -1);
    return response.body as ReadableStream<Uint8Array>;
  }

  /** Waits for the command's end by its stream, then polls. */
  async outcome(id: string): Promise<Outcome> {
    await this.follow(id);
    return await this.guest.poll(id) as Outcome;
  }

  /** The group of one exec; throws for an unknown one. */
  async group(id: string): Promise<ProcGroup> {
    const found = (await this.guest.procs()).find(({ exec_id }) => exec_id === id);
    if (found === undefined) throw new Error(`Cannot find exec ${id} in procs`);
    return found;
  }

  /** A bare connection, over which these pieces were sent. */
  async connect(...pieces: readonly (string | Uint8Array)[]): Promise<RawConnection> {
    const connection = await RawConnection.open(this.#port);
    await connection.send(...pieces);
    return connection;
  }

  rss(): number {
    return residentBytes(this.pid);
  }

  fdCount(): number {
    return fdCount(this.pid);
  }

  threadCount(): number {
    return threadNames(this.pid).length;
  }

  /** Sends a signal; nothing happens where the process has ended. The exit code is then the test's to check. */
  signal(name: Deno.Signal): void {
    this.#endedByTest = true;
    try {
      this.#child.kill(name);
    } catch {
      // It has ended already.
    }
  }

  /** Sends a signal, waits for the end and gives the exit code. */
  async stop(signal: Deno.Signal = "SIGTERM"): Promise<number> {
    this.signal(signal);
    return await this.end();
  }

  /** Waits for an end that the test has brought about, say with the terminate hook, and gives the exit code. */
  async end(): Promise<number> {
    this.#endedByTest = true;
    return (await within("the end of the daemon", this.exited)).code;
  }

  /** Ends it, with SIGTERM and if that fails with SIGKILL; throws when it did not exit with 0 by itself. */
  async [Symbol.asyncDispose](): Promise<void> {
    const checked = !this.#endedByTest;
    this.signal("SIGTERM");
    try {
      const { code } = await within("the end of the daemon after SIGTERM", this.exited);
      await within("the end of its log (some child holds its stderr)", this.log.ended);
      if (checked && code !== 0) {
        throw new Error(`Cannot pass: the daemon exited with ${code}\n${this.log}`);
      }
    } finally {
      this.signal("SIGKILL");
      this.#client.close();
    }
  }
}

/** Runs the program to its end, for options like `--version`. */
export async function runOnce(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ code: number; stdout: string; stderr: string }> {
  const output = new Deno.Command(LAUNCHER, { args: [...args], clearEnv: true, env, stdin: "null" })
    .output();
  const { code, stdout, stderr } = await within(`the end of guestd ${args.join(" ")}`, output);
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}
