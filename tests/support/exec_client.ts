/** A client of commands, in whichever way its requests go out. */

import type {
  KillResponse,
  PollResponse,
  StartResponse,
  StdinResponse,
} from "../../src/contract/exec.ts";
import type { Health } from "../../src/contract/system.ts";
import { json } from "./answers.ts";

/** Fields of a start request besides `command`, under their wire names. */
export interface ExecOptions {
  readonly exec_id?: string;
  readonly shell?: boolean;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly user?: number;
  readonly group?: number;
  readonly timeout_sec?: number;
  readonly stdin?: boolean;
  readonly reap_group_on_exit?: boolean;
}

export abstract class ExecClient {
  /** The token that the run hook installed; requests carry it once there is one. */
  token: string | undefined;

  abstract fetch(path: string, init?: RequestInit): Promise<Response>;

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
  async exec(command: string | readonly string[], options: ExecOptions = {}): Promise<string> {
    const exec_id = options.exec_id ?? crypto.randomUUID();
    const argv = typeof command === "string" ? { command: [command], shell: true } : { command };
    const answer = await this.post("/v1/exec/start", { ...argv, ...options, exec_id });
    return (await json<StartResponse>(answer)).exec_id;
  }

  async poll(id: string): Promise<PollResponse> {
    return await json(await this.fetch(execPath(id)));
  }

  async ack(id: string): Promise<Required<PollResponse>> {
    return await json(await this.post(execPath(id, "ack")));
  }

  async kill(id: string): Promise<KillResponse> {
    return await json(await this.post(execPath(id, "kill")));
  }

  /** Writes to stdin and, with `eof`, closes it. */
  async stdin(id: string, data: string | Uint8Array, eof = false): Promise<StdinResponse> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    return await json(
      await this.post(execPath(id, "stdin"), {
        ...(bytes.length === 0 ? {} : { data_b64: bytes.toBase64() }),
        ...(eof ? { signal: "eof" } : {}),
      }),
    );
  }

  async health(): Promise<Health> {
    return await json(await this.fetch("/v1/health"));
  }
}

export function execPath(id: string, what?: string): string {
  return `/v1/exec/${encodeURIComponent(id)}${what === undefined ? "" : `/${what}`}`;
}
