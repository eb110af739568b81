import { Refusal } from "../contract/refusal.ts";

/** Whether a comma-separated header holds a token, in any case. */
function lists(header: string | null, token: string): boolean {
  return header !== null && header.split(",").some((part) => part.trim().toLowerCase() === token);
}

/** Throws the `malformed_request` refusal for a request that asks for no WebSocket. */
export function demandUpgrade({ headers }: Request): void {
  if (!lists(headers.get("upgrade"), "websocket") || !lists(headers.get("connection"), "upgrade")) {
    throw new Refusal("malformed_request", "the request is no WebSocket upgrade");
  }
  if ((headers.get("sec-websocket-version") ?? "13") !== "13") {
    throw new Refusal("malformed_request", "sec-websocket-version is not 13");
  }
  if (headers.has("transfer-encoding") || (headers.get("content-length") ?? "0") !== "0") {
    throw new Refusal("malformed_request", "a WebSocket upgrade has no body");
  }
  if (!/^[A-Za-z0-9+/]{22}==$/.test(headers.get("sec-websocket-key") ?? "")) {
    throw new Refusal("malformed_request", "sec-websocket-key is not 16 bytes as base64");
  }
}
