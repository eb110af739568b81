import { encodeHead } from "../contract/head.ts";
import { Refusal } from "../contract/refusal.ts";

/** What the key is hashed with: section 1.3 of RFC 6455. */
const KEY_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** The connection behind an upgraded request; its first reads give what Deno had read already. */
export interface UpgradedConnection {
  /** Reads at least a byte; null at the end. */
  read(into: Uint8Array): Promise<number | null>;
  /** Writes; may take less than all. */
  write(bytes: Uint8Array): Promise<number>;
  /** Closes Deno's descriptor, which cancels a read. */
  close(): void;
}

/** Takes the connection of a request away from the server. The response must be returned as it is. */
export type Upgrade = (
  request: Request,
) => { readonly conn: UpgradedConnection; readonly response: Response };

/**
 * Deno's own way to hand out the connection behind a request: what its `node:http` is made with.
 * It is not public, so it is looked up once, when the daemon starts; undefined when it is not there.
 */
export function findUpgrade(): Upgrade | undefined {
  const internals: unknown = Reflect.get(Deno, Reflect.get(Deno, "internal") ?? "");
  const upgrade: unknown = typeof internals === "object" && internals !== null
    ? Reflect.get(internals, "upgradeHttpRaw")
    : undefined;
  return typeof upgrade === "function" ? upgrade as Upgrade : undefined;
}

/** Whether a comma-separated header holds a token, in any case. */
function lists(header: string | null, token: string): boolean {
  return header !== null && header.split(",").some((part) => part.trim().toLowerCase() === token);
}

/** The key of a request for a WebSocket. Throws the `malformed_request` refusal for any other. */
export function websocketKey({ headers }: Request): string {
  if (!lists(headers.get("upgrade"), "websocket") || !lists(headers.get("connection"), "upgrade")) {
    throw new Refusal("malformed_request", "the request is no WebSocket upgrade");
  }
  if ((headers.get("sec-websocket-version") ?? "13") !== "13") {
    throw new Refusal("malformed_request", "sec-websocket-version is not 13");
  }
  if (headers.has("transfer-encoding") || (headers.get("content-length") ?? "0") !== "0") {
    throw new Refusal("malformed_request", "a WebSocket upgrade has no body");
  }
  const key = headers.get("sec-websocket-key") ?? "";
  if (!/^[A-Za-z0-9+/]{22}==$/.test(key)) {
    throw new Refusal("malformed_request", "sec-websocket-key is not 16 bytes as base64");
  }
  return key;
}

/** The head of the answer that upgrades, with `headers` besides those of the upgrade itself. */
export async function upgradeHead(
  key: string,
  headers: Readonly<Record<string, string>>,
): Promise<Uint8Array<ArrayBuffer>> {
  const hash = await crypto.subtle.digest("SHA-1", new TextEncoder().encode(key + KEY_SUFFIX));
  return encodeHead("101 Switching Protocols", {
    upgrade: "websocket",
    connection: "Upgrade",
    "sec-websocket-accept": new Uint8Array(hash).toBase64(),
    ...headers,
  });
}
