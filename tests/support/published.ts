/**
 * What a daemon publishes of itself in `/v1/schema`, and a check of its answers against that: whatever a test asks
 * for by `Daemon.fetch` must be an answer that the document announces, in status, slug, header and shape.
 */

import { fieldsOf } from "../../src/client/sse.ts";
import type { StatusRow } from "../../src/contract/rows.ts";
import { Definitions, type JsonSchema } from "./json_schema.ts";

type PublishedContent = Readonly<{ content_type: string; schema?: JsonSchema }>;

export interface PublishedRow {
  readonly method: string;
  readonly path: string;
  readonly auth: string;
  readonly summary: string;
  readonly request: PublishedContent | null;
  readonly response: PublishedContent | null;
  readonly statuses: readonly StatusRow[];
  readonly query?: JsonSchema;
  readonly sse_events?: Readonly<Record<string, JsonSchema>>;
}

/** The document of `/v1/schema`, as far as tests read it. */
export interface PublishedDocument {
  readonly $defs: Readonly<Record<string, JsonSchema>>;
  readonly $schema: string;
  readonly auth: Readonly<Record<string, unknown>>;
  readonly daemon_version: string;
  readonly definition_collisions: readonly unknown[];
  readonly generated_from: string;
  readonly hook_prefix: string;
  readonly limits: Readonly<Record<string, number>>;
  readonly protocol_version: string;
  readonly routes: readonly PublishedRow[];
  readonly title: string;
  readonly unmatched_path: StatusRow;
  readonly version_header: string;
}

/** The 500 that a handler's unexpected failure is answered with, on a route that announces none. */
export class UnexpectedFailure extends Error {}

export class Published {
  readonly document: PublishedDocument;
  readonly #definitions: Definitions;

  constructor(document: PublishedDocument) {
    this.document = document;
    this.#definitions = new Definitions(document.$defs);
  }

  /** The rows whose path fits, query and all cut off. */
  rows(target: string): PublishedRow[] {
    const path = target.replace(/\?.*$/, "").split("/");
    return this.document.routes.filter((row) => {
      const pattern = row.path.split("/");
      return pattern.length === path.length &&
        pattern.every((part, at) => (part === "{id}" ? path[at] !== "" : part === path[at]));
    });
  }

  /** Gives the answer back; throws unless it is one that the document announces for this request. */
  async checked(method: string, target: string, response: Response): Promise<Response> {
    const fail = (what: string): never => {
      throw new Error(`Cannot pass: ${method} ${target} was answered against the schema: ${what}`);
    };
    const { version_header, daemon_version } = this.document;
    const version = response.headers.get(version_header);
    if (version !== daemon_version) fail(`its version is ${version}`);
    const type = response.headers.get("content-type");
    const isJson = type === "application/json";
    const isRead = isJson || type?.startsWith("text/plain") === true;
    const bytes = isRead ? await response.bytes() : undefined;
    const body: unknown = isJson ? JSON.parse(new TextDecoder().decode(bytes)) : undefined;
    const slug = slugOf(response, body);
    const row = this.#row(method, target, response.status, slug, fail);
    if (row !== undefined && type !== typeOf(row, response.status, slug)) {
      fail(`its type is ${type}`);
    }
    const shape = response.ok ? row?.response?.schema : { $ref: "#/$defs/ErrorBody" };
    const found = isJson && shape ? this.#definitions.violations(shape, body) : "";
    if (found !== "") fail(found);
    if (bytes === undefined) return response;
    const { status, headers } = response;
    const copy = new Response(bytes, { status, headers });
    return Object.defineProperty(copy, "url", { value: response.url });
  }

  /** Throws unless a frame is an event that the stream route announces. */
  checkEvent(frame: string): void {
    const { name, data } = fieldsOf(frame);
    const schema = this.rows("/v1/exec/x/stream")[0]?.sse_events?.[name];
    if (schema === undefined) throw new Error(`Cannot pass: event '${name}' is not published`);
    const found = this.#definitions.violations(schema, JSON.parse(data));
    if (found !== "") throw new Error(`Cannot pass: ${found}: ${data}`);
  }

  /** The row that answered, with this status and slug; undefined for an answer that belongs to none. */
  #row(
    method: string,
    target: string,
    status: number,
    slug: string,
    fail: (what: string) => never,
  ): PublishedRow | undefined {
    const rows = this.rows(target);
    const row = rows.find((candidate) => candidate.method === method);
    if (row === undefined) {
      const expected = rows.length === 0 ? this.document.unmatched_path.code : 405;
      if (status !== expected || slug !== "") fail(`${status} is not ${expected}`);
    } else if (!row.statuses.some(({ code, error }) => code === status && error === slug)) {
      if (status === 500 && slug === "") {
        throw new UnexpectedFailure(`Cannot pass: ${method} ${target} was answered with 500`);
      }
      fail(`${status} ${slug} is not among the route's statuses`);
    }
    return row;
  }
}

/** A success has the published type, a refusal with a slug is JSON, any other prose. */
function typeOf(row: PublishedRow, status: number, slug: string): string | null {
  if (status >= 300) return slug === "" ? "text/plain; charset=utf-8" : "application/json";
  // The document declares itself as bytes, as the protocol has it, and is served as JSON.
  return row.path === "/v1/schema" ? "application/json" : row.response?.content_type ?? null;
}

function slugOf(response: Response, body: unknown): string {
  if (response.ok || typeof body !== "object" || body === null || !("error" in body)) return "";
  return String(body.error);
}
