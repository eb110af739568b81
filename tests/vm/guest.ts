/**
 * A client for the daemon inside a guest, on the forwarded port. Slower than {@link Daemon}'s, and not at all about
 * the process, which is in another machine.
 */

import { text } from "../support/answers.ts";
import { within } from "../support/await_event.ts";
import { SseStream, type StreamRest } from "../support/sse.ts";
import { HOOK_PREFIX } from "../support/daemon.ts";
import { ExecClient, type ExecOptions, execPath } from "../support/exec_client.ts";

/** How long an answer may take, in milliseconds. */
const ANSWER_MS = 60_000;

/** A lifecycle hook without a body. */
export type Hook = "ready" | "validate" | "suspend" | "resume" | "terminate";

/** One guest, as its platform and its client see it. */
export class Guest extends ExecClient implements Disposable {
  readonly port: number;
  readonly #client = Deno.createHttpClient({});

  constructor(port: number, token?: string) {
    super();
    this.port = port;
    this.token = token;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Fetches with the token, if there is one. */
  override async fetch(
    path: string,
    init: RequestInit = {},
    answerMs: number = ANSWER_MS,
  ): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.token !== undefined) headers.set("authorization", `Bearer ${this.token}`);
    const answer = fetch(this.url + path, { ...init, headers, client: this.#client });
    return await within(`an answer to ${init.method ?? "GET"} ${path}`, answer, answerMs);
  }

  /** Posts a hook; throws unless it is answered with 200 and nothing. */
  async hook(name: Hook): Promise<void> {
    await text(await this.post(`${HOOK_PREFIX}/${name}`));
  }

  /** Posts the run hook with a new token and whatever else the payload is to hold. */
  async run(more: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const token = crypto.randomUUID();
    const runHookPayload = JSON.stringify({ agent_token: token, ...more });
    await text(await this.post(`${HOOK_PREFIX}/run`, { runHookPayload }));
    return this.token = token;
  }

  /** Starts a script of the guest's shell. */
  async start(script: string, options: ExecOptions = {}): Promise<string> {
    return await this.exec(script, options);
  }

  async stream(id: string, offset = 0n): Promise<SseStream> {
    const response = await this.fetch(`${execPath(id, "stream")}?offset=${offset}`);
    if (response.status !== 200 || response.body === null) await text(response, -1);
    return new SseStream(response.body as ReadableStream<Uint8Array>);
  }

  /** Follows a command's output to its end. */
  async follow(id: string, offset = 0n): Promise<StreamRest> {
    await using stream = await this.stream(id, offset);
    return await stream.rest();
  }

  /** Runs a script to its end; its output, without white space at the ends. Throws when it fails. */
  async sh(script: string, options: ExecOptions = {}): Promise<string> {
    const id = await this.start(script, options);
    await this.follow(id);
    const { exit_code, stdout, stderr } = await this.ack(id);
    if (exit_code !== 0) {
      throw new Error(`Cannot run '${script}' in the guest: ${exit_code}, ${stderr}${stdout}`);
    }
    return stdout.trim();
  }

  /** The memory of the daemon, as the guest's PID 1, now and at its most. */
  async daemonMemory(): Promise<string> {
    return await this.sh("grep -E '^Vm(RSS|HWM)' /proc/1/status | tr -s '[:space:]' ' '");
  }

  [Symbol.dispose](): void {
    this.#client.close();
  }
}
