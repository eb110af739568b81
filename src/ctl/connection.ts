/** Which guest, and with which token: options first, then the environment. */

import { Guest, SocketTransport, vsockAddress } from "../client/mod.ts";
import { Failure } from "./failure.ts";

/** Options that every command has. */
export interface Common {
  /** Base URL of the guest. */
  readonly url?: string;
  /** File that holds its token. */
  readonly tokenFile?: string;
  /** Whether to print for scripts. */
  readonly json?: boolean;
}

/** Where a guest is unless told otherwise. */
export const DEFAULT_URL = "http://127.0.0.1:9000";

/** The guest's URL. */
export function urlOf({ url }: Common): string {
  const given = url ?? (Deno.env.get("GUESTCTL_URL") || DEFAULT_URL);
  try {
    if (vsockAddress(given) || /^https?:$/.test(URL.parse(given)?.protocol ?? "")) return given;
  } catch (error) {
    throw new Failure((error as Error).message);
  }
  throw new Failure(`Cannot use ${given}: a guest has an http, https, vsock-unix or vsock URL`);
}

/** The token that was given, or undefined. Throws a {@link Failure} for a file that cannot be read. */
export function tokenOf({ tokenFile }: Common): string | undefined {
  const file = tokenFile ?? (Deno.env.get("GUESTCTL_TOKEN_FILE") || undefined);
  const token = Deno.env.get("GUESTCTL_TOKEN") || undefined;
  if (file === undefined || (tokenFile === undefined && token !== undefined)) return token;
  try {
    return Deno.readTextFileSync(file).trim();
  } catch (error) {
    throw new Failure(`Cannot read the token: ${(error as Error).message}`);
  }
}

/** The guest. `sockets` has it reached by connections that wait for their reader. */
export function guestOf(common: Common, sockets = false): Guest {
  const url = urlOf(common);
  // To a vsock there is no other way.
  const transport = sockets && !vsockAddress(url) ? new SocketTransport() : undefined;
  return new Guest(url, { token: tokenOf(common), transport });
}

/** Prints a value for scripts. */
export function printJson(value: unknown): void {
  const text = JSON.stringify(
    value,
    (_key, item) => typeof item === "bigint" ? Number(item) : item,
    2,
  );
  console.log(text);
}
