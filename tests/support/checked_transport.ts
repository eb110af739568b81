/** The client library's way to a daemon under test. */

import { FetchTransport } from "../../src/client/fetch_transport.ts";
import type { TransportRequest } from "../../src/client/transport.ts";
import { PATIENCE_MS, within } from "./await_event.ts";
import type { Published } from "./published.ts";

/** Waits for no answer for ever, and throws for one that the daemon's schema does not announce. */
export class CheckedTransport extends FetchTransport {
  readonly #published: Published | undefined;
  readonly #answerMs: number;

  constructor(
    fetch: typeof globalThis.fetch,
    published: Published | undefined,
    answerMs: number = PATIENCE_MS,
  ) {
    super({ fetch });
    this.#published = published;
    this.#answerMs = answerMs;
  }

  override async request(url: string, request: TransportRequest): Promise<Response> {
    const { method } = request;
    const answer = super.request(url, request);
    const response = await within(`an answer to ${method} ${url}`, answer, this.#answerMs);
    const { pathname, search } = new URL(url);
    return await this.#published?.checked(method, pathname + search, response) ?? response;
  }
}
