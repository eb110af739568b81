/**
 * A client for the daemon inside a guest, on the forwarded port. Slower than {@link Daemon}'s, and not at all about
 * the process, which is in another machine.
 */

import type { CommandOptions } from "../../src/client/command.ts";
import { execPath } from "../../src/client/exec_calls.ts";
import type { RunOptions } from "../../src/client/hooks.ts";
import { Guest as Client } from "../../src/client/guest.ts";
import { SocketTransport } from "../../src/client/socket_transport.ts";
import type { VsockAddress } from "../../src/client/vsock.ts";
import { text } from "../support/answers.ts";
import { within } from "../support/await_event.ts";
import { CheckedTransport } from "../support/checked_transport.ts";
import { SseStream, type StreamRest } from "../support/sse.ts";

/** How long an answer may take, in milliseconds. */
const ANSWER_MS = 60_000;

/** One guest, as its platform and its client see it. */
export class Guest implements Disposable {
  readonly url: string;
  token: string | undefined;
  readonly #connections = Deno.createHttpClient({});
  readonly #sockets: SocketTransport | undefined;

  /** A guest behind a forwarded port, or by its vsock. */
  constructor(way: number | VsockAddress, token?: string) {
    this.url = typeof way === "number" ? `http://127.0.0.1:${way}` : "http://vsock";
    this.#sockets = typeof way === "number" ? undefined : new SocketTransport({ vsock: way });
    this.token = token;
  }

  /** What users drive a guest with; a failed connection is not tried again. */
  get client(): Client {
    const fetching = (...asked: Parameters<typeof fetch>): Promise<Response> =>
      this.#fetch(...asked);
    const transport = this.#sockets ?? new CheckedTransport(fetching, undefined, ANSWER_MS);
    return new Client(this.url, { token: this.token, transport, retryMs: 0 });
  }

  async #fetch(...[url, init]: Parameters<typeof fetch>): Promise<Response> {
    if (this.#sockets === undefined) {
      return await fetch(url, { ...init, client: this.#connections });
    }
    const { method, headers, body } = new Request(url, init);
    const bytes = body === null ? undefined : await new Response(body).bytes();
    const fields = Object.fromEntries(headers);
    return await this.#sockets.request(String(url), { method, headers: fields, body: bytes });
  }

  /** Fetches with the token, if there is one. */
  async fetch(
    path: string,
    init: RequestInit = {},
    answerMs: number = ANSWER_MS,
  ): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.token !== undefined) headers.set("authorization", `Bearer ${this.token}`);
    const answer = this.#fetch(this.url + path, { ...init, headers });
    return await within(`an answer to ${init.method ?? "GET"} ${path}`, answer, answerMs);
  }

  /** Posts the run hook with a new token and whatever else it is to bring. */
  async run(more: Omit<RunOptions, "token"> = {}): Promise<void> {
    const token = crypto.randomUUID();
    await this.client.hooks.run({ token, ...more });
    this.token = token;
  }

  /** Starts a script of the guest's shell. */
  async start(script: string, options: CommandOptions = {}): Promise<string> {
    return await this.client.shell(script, options).start();
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
  async sh(script: string, options: CommandOptions = {}): Promise<string> {
    const output = await this.client.shell(script, options).output();
    const [stdout, stderr] = [output.stdout, output.stderr].map((it) =>
      new TextDecoder().decode(it)
    );
    if (output.success) return stdout?.trim() ?? "";
    throw new Error(`Cannot run '${script}' in the guest: ${output.code}, ${stderr}${stdout}`);
  }

  /** The memory of the daemon, as the guest's PID 1, now and at its most. */
  async daemonMemory(): Promise<string> {
    return await this.sh("grep -E '^Vm(RSS|HWM)' /proc/1/status | tr -s '[:space:]' ' '");
  }

  [Symbol.dispose](): void {
    this.#sockets?.close();
    this.#connections.close();
  }
}
