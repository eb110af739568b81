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
  if (!same && !isAuthority(authority)) return undefined;
  const target = rest.slice(authority.length);
  const question = target.indexOf("?");
  const path = question === -1 ? target : target.slice(0, question);
  return {
    path: path === "" ? "/" : path,
    query: question === -1 ? "" : target.slice(question + 1),
  };
}

const AUTHORITY = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~!$&'()*+,;=%]+)(?::([0-9]{0,5}))?$/;

function isAuthority(authority: string): boolean {
  const match = AUTHORITY.exec(authority);
  return match !== null && Number(match[1] ?? "0") <= 65535;
}
