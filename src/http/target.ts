import type { QuerySource } from "../contract/object.ts";
import { type RouteRow, ROWS, servedPath } from "../contract/rows.ts";
import { Mismatch } from "../contract/schema.ts";

/** A request target, cut but not decoded. */
export interface Target {
  /** The raw path, beginning with a slash. */
  readonly path: string;
  /** The raw query without its question mark; empty when there is none. */
  readonly query: string;
}

/**
 * Cuts `url`, which Deno puts together as scheme, Host header and raw target, or in absolute form
 * as it was sent. Undefined when an authority is not host[:port]: the cut would fall in the wrong
 * place.
 *
 * `new URL` would fold dot segments, drop tabs and turn backslashes, and a `#` begins no fragment
 * on the wire.
 */
export function cutTarget(url: string, host: string | null): Target | undefined {
  // An empty Host is valid; Deno then puts its own address.
  if (host !== null && host !== "" && !isAuthority(host)) return undefined;
  const afterScheme = url.indexOf("://") + 3;
  const rest = url.slice(afterScheme);
  // Mostly the authority is the Host header, which was looked at just now.
  const same = host !== null && host !== "" && rest.startsWith(`${host}/`);
  const authorityEnd = same ? host.length : rest.search(/[/?#]/);
  const authority = authorityEnd === -1 ? rest : rest.slice(0, authorityEnd);
  // Its own address is a port of 32 bits where the request came by vsock.
  const mostPort = url.startsWith("http+vsock:") ? 2 ** 32 - 1 : 65535;
  if (!same && !isAuthority(authority, mostPort)) return undefined;
  const target = rest.slice(authority.length);
  const question = target.indexOf("?");
  const path = question === -1 ? target : target.slice(0, question);
  return {
    path: path === "" ? "/" : path,
    query: question === -1 ? "" : target.slice(question + 1),
  };
}

const AUTHORITY = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~!$&'()*+,;=%]+)(?::([0-9]{0,10}))?$/;

function isAuthority(authority: string, mostPort = 65535): boolean {
  const match = AUTHORITY.exec(authority);
  return match !== null && Number(match[1] ?? "0") <= mostPort;
}

/**
 * A raw query as `application/x-www-form-urlencoded`: `+` is a space, the first of repeated names
 * counts, unknown names are ignored whatever they hold.
 */
export class Query implements QuerySource {
  readonly #raw: string;

  /** Wraps the raw query, without its question mark. */
  constructor(raw: string) {
    this.#raw = raw;
  }

  /**
   * The first value of `name`; throws {@link Mismatch} when its escapes are malformed or not UTF-8.
   */
  text(name: string): string | undefined {
    for (const pair of this.#raw.split("&")) {
      const equals = pair.indexOf("=");
      if (pair === "" || decodeForm(equals === -1 ? pair : pair.slice(0, equals)) !== name) {
        continue;
      }
      const value = decodeForm(equals === -1 ? "" : pair.slice(equals + 1));
      if (value === undefined) {
        throw new Mismatch(`query parameter ${name} must be percent-encoded UTF-8`);
      }
      return value;
    }
    return undefined;
  }
}

function decodeForm(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}

/** A row whose pattern fits a path. */
export interface Fit {
  /** The row. */
  readonly row: RouteRow;
  /** The decoded `{id}`; undefined when it cannot be decoded or the row has none. */
  readonly id: string | undefined;
}

/** A path with an `{id}`: what stands before it, and what behind. */
interface Pattern {
  readonly row: RouteRow;
  readonly before: string;
  readonly behind: string;
}

/**
 * The rows by their patterns. Paths are matched raw: no folding, no merging, no decoding but of the
 * id.
 *
 * Invariant: each row is in `#exact` under its path if it has no `{id}`, else in `#patterns`.
 */
export class Roster {
  readonly #exact = new Map<string, Fit[]>();
  readonly #patterns: Pattern[] = [];

  /** Takes the rows with the hook prefix put in. */
  constructor(hookPrefix: string) {
    for (const row of ROWS) {
      const path = servedPath(row, hookPrefix);
      const [before = "", behind] = path.split("{id}");
      if (behind !== undefined) this.#patterns.push({ row, before, behind });
      else this.#exact.set(path, [...this.#exact.get(path) ?? [], { row, id: undefined }]);
    }
  }

  /** All rows that fit: `/v1/exec/start` is also the path of the exec named `start`. */
  find(path: string): readonly Fit[] {
    const fits = [...this.#exact.get(path) ?? []];
    for (const { row, before, behind } of this.#patterns) {
      if (!path.startsWith(before) || !path.endsWith(behind)) continue;
      const raw = path.slice(before.length, path.length - behind.length);
      if (path.length < before.length + behind.length || raw === "" || raw.includes("/")) continue;
      fits.push({ row, id: decodeId(raw) });
    }
    return fits;
  }
}

function decodeId(raw: string): string | undefined {
  try {
    return decodeURIComponent(raw);
  } catch {
    return undefined;
  }
}
