import { text } from "./respond.ts";

/** The installed token, as far as the gate needs it. */
export interface TokenSource {
  /** Whether a token is installed. */
  readonly installed: boolean;
  /** Compares in constant time; false when none is installed. */
  matches(presented: Uint8Array): boolean;
}

/**
 * The answer to a Bearer request that may not pass, or undefined. Looks at the `Authorization`
 * header alone.
 *
 * Deno joins two headers to one value with ", " between them, and so they present one odd token.
 */
export function refuseEntry(request: Request, token: TokenSource): Response | undefined {
  if (!token.installed) return text(503, "No token is installed yet.");
  const presented = presentedToken(request.headers.get("authorization"));
  if (presented !== undefined && token.matches(presented)) return undefined;
  return text(401, "The bearer token is missing or not the installed one.", {
    "www-authenticate": "Bearer",
  });
}

/** The raw bytes after `Bearer `, the scheme in any case; undefined for anything else. */
function presentedToken(header: string | null): Uint8Array | undefined {
  if (header === null) return undefined;
  const space = header.indexOf(" ");
  if (space === -1 || header.slice(0, space).toLowerCase() !== "bearer") return undefined;
  // Deno hands each byte of a header over as one char, so this restores what was on the wire.
  const bytes = new Uint8Array(header.length - space - 1);
  for (let at = 0; at < bytes.length; at++) bytes[at] = header.charCodeAt(space + 1 + at);
  return bytes;
}
