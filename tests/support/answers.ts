/** Reading an HTTP answer and its status in one step, so that an unexpected one shows what it said. */

import type { ErrorBody, Slug } from "../../src/contract/refusal.ts";

/** An answer with another status than the one that was expected. */
export class UnexpectedStatus extends Error {
  readonly status: number;

  constructor({ url, status }: Response, expected: number, body: string) {
    super(`Cannot go on: ${url} answered ${status}, not ${expected}: ${body}`);
    this.status = status;
  }
}

/** The body as text; throws with it unless the status is the expected one. */
export async function text(response: Response, status = 200): Promise<string> {
  const body = await response.text();
  if (response.status !== status) throw new UnexpectedStatus(response, status, body);
  return body;
}

/** The body as JSON; throws unless the status is the expected one and the body is declared as JSON. */
export async function json<T>(response: Response, status = 200): Promise<T> {
  const body = await text(response, status);
  const type = response.headers.get("content-type");
  if (!/^application\/json(;|$)/.test(type ?? "")) {
    throw new Error(`Cannot go on: ${response.url} answered as ${type}, not JSON: ${body}`);
  }
  return JSON.parse(body) as T;
}

/** The error body of a refused request; throws unless status and slug are the expected ones. */
export async function refused(response: Response, status: number, slug: Slug): Promise<ErrorBody> {
  const body = await json<ErrorBody>(response, status);
  if (body.error !== slug || typeof body.detail !== "string" || body.detail === "") {
    throw new Error(`Cannot go on: ${response.url} answered ${JSON.stringify(body)}, not ${slug}`);
  }
  return body;
}

/** One line of plain text; throws unless status and shape are the expected ones. */
export async function plain(response: Response, status: number): Promise<string> {
  const line = (await text(response, status)).replace(/\n$/, "");
  const type = response.headers.get("content-type");
  if (type !== "text/plain; charset=utf-8" || line === "" || line.includes("\n")) {
    throw new Error(`Cannot go on: ${response.url} answered as ${type}, no line of prose: ${line}`);
  }
  return line;
}
