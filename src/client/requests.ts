/** Requests to one guest: the token, answers of failure as errors, and new tries. */

import type { Limits } from "../contract/limits.ts";
import { concat } from "./bytes.ts";
import { ConnectionLost, GuestError, ProtocolViolation, refusalOf, Unreachable } from "./errors.ts";
import { Retry } from "./retry.ts";
import type { Transport, TransportRequest } from "./transport.ts";

/** More than the largest poll: two outputs of 8 MiB, each byte escaped to six. */
const MAX_JSON_BYTES = 128 * 1024 * 1024;
/** What is read of a refusal. */
const MAX_REFUSAL_BYTES = 64 * 1024;

/** One request. */
export interface Ask extends Omit<TransportRequest, "headers"> {
  /** What it is for, as in "start a command": errors begin with it. */
  readonly what: string;
  /** Path and query, encoded. */
  readonly path: string;
  /** Whether it may be sent again when its answer was lost. */
  readonly repeatable?: boolean;
  /** Headers besides the token's. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The way to one guest. */
export class Requests {
  /** Base of all paths, without a slash at its end. */
  readonly base: string;
  /** Carries them. */
  readonly transport: Transport;
  readonly #authorization: Readonly<Record<string, string>>;
  readonly #retryMs: number;
  #answered = false;
  #limits: Limits | undefined;

  /** Makes the way to `base`, with new tries for `retryMs` milliseconds; nothing is sent. */
  constructor(base: string, token: string | undefined, transport: Transport, retryMs: number) {
    this.base = base;
    this.#retryMs = retryMs;
    this.transport = transport;
    this.#authorization = token === undefined ? {} : { authorization: `Bearer ${asBytes(token)}` };
  }

  /** What every request carries. */
  get headers(): Readonly<Record<string, string>> {
    return this.#authorization;
  }

  /** New tries for one task. */
  retry(): Retry {
    return new Retry(this.#retryMs, () => this.#answered);
  }

  /**
   * Sends a request and has `read` read the answer, which has a status of success; all of it again where the connection
   * fails and that is allowed. A guest that was never reached is not tried again.
   */
  async send<T>(ask: Ask, read: (response: Response) => Promise<T> | T): Promise<T> {
    const retry = this.retry();
    for (;;) {
      try {
        return await read(await this.once(ask));
      } catch (error) {
        const unsent = error instanceof Unreachable && !(ask.body instanceof ReadableStream);
        if (!unsent && ask.repeatable !== true) throw error;
        await retry.failed(error, ask.signal);
      }
    }
  }

  /** The same, once, giving the answer itself. */
  async once(ask: Ask): Promise<Response> {
    const { what, path, method, body, size, signal } = ask;
    signal?.throwIfAborted();
    const headers = { ...this.#authorization, ...ask.headers };
    const request = { method, headers, body, size, signal };
    const response = await this.transport.request(this.base + path, request);
    this.#answered = true;
    if (response.ok) return response;
    throw await refusal(what, response, signal);
  }

  /** An answer's JSON. */
  async json<T>(ask: Ask): Promise<T> {
    return await this.send(ask, async (response) => {
      const text = new TextDecoder().decode(await readBody(response, MAX_JSON_BYTES, ask));
      try {
        return JSON.parse(text) as T;
      } catch (cause) {
        throw new ProtocolViolation(`Cannot ${ask.what}: the answer is not JSON`, { cause });
      }
    });
  }

  /** The guest's limits, asked for once. */
  async limits(signal?: AbortSignal): Promise<Limits> {
    const ask = { what: "read the limits", method: "GET", path: "/v1/schema", repeatable: true };
    this.#limits ??= (await this.json<{ readonly limits: Limits }>({ ...ask, signal })).limits;
    return this.#limits;
  }

  /** A request whose answer has nothing to say but its status. */
  async done(ask: Ask): Promise<void> {
    await this.send(ask, async (response) => void await readBody(response, MAX_REFUSAL_BYTES, ask));
  }
}

/** The error that an answer of failure stands for. A gateway that has lost its guest is a lost connection. */
export async function refusal(
  what: string,
  response: Response,
  signal?: AbortSignal,
): Promise<GuestError> {
  const { status } = response;
  const bytes = await readBody(response, MAX_REFUSAL_BYTES, { what, signal }).catch((error) => {
    signal?.throwIfAborted();
    return error instanceof ConnectionLost ? new Uint8Array() : Promise.reject(error);
  });
  if (status === 502 || status === 504) {
    return new ConnectionLost(`Cannot ${what}: a gateway answered ${status}`);
  }
  const type = response.headers.get("content-type") ?? "";
  return refusalOf(what, status, type, new TextDecoder().decode(bytes));
}

/** The whole body. Throws where it is longer than `maxBytes` or the connection fails. */
export async function readBody(
  response: Response,
  maxBytes: number,
  { what, signal }: Pick<Ask, "what" | "signal">,
): Promise<Uint8Array<ArrayBuffer>> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of checkedBody(response, { what, signal })) {
    size += piece.length;
    if (size > maxBytes) {
      throw new ProtocolViolation(`Cannot ${what}: the answer has more than ${maxBytes} bytes`);
    }
    pieces.push(piece);
  }
  return concat(pieces);
}

/** The pieces of a body; a failure is a {@link ConnectionLost}, or the signal's reason. Cancelled where it is left. */
export async function* checkedBody(
  { body }: Response,
  { what, signal }: Pick<Ask, "what" | "signal">,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  if (body === null) return;
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } catch (cause) {
    signal?.throwIfAborted();
    if (cause instanceof GuestError) throw cause;
    throw new ConnectionLost(`Cannot ${what}: the connection failed in mid-answer`, { cause });
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** A path and its query, without what is undefined. */
export function withQuery(
  path: string,
  query: Readonly<Record<string, string | number | bigint | undefined>>,
): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]]
  );
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** The UTF-8 of a header's value, one char a byte. */
function asBytes(value: string): string {
  return Array.from(new TextEncoder().encode(value), (byte) => String.fromCharCode(byte)).join("");
}
