import { encodeJson } from "../contract/json.ts";

/** An answer with `value` as JSON; a bigint becomes a number with all its digits. */
export function json(status: number, value: unknown): Response {
  return new Response(encodeJson(value), {
    status,
    headers: { "content-type": "application/json" },
  });
}

/** An answer with one line of prose. */
export function text(
  status: number,
  line: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new Response(`${line}\n`, {
    status,
    headers: { ...headers, "content-type": "text/plain; charset=utf-8" },
  });
}

/** An answer without a body. */
export function empty(status = 200): Response {
  return new Response(null, { status });
}
