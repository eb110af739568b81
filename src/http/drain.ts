import { declaredLength, wasAbandoned } from "./body.ts";

/**
 * Deno has at most this of a body in its hands when the handler begins: a longer one is certainly
 * incomplete.
 */
const DENO_FIRST_READ_BYTES = 1024;

/**
 * Decides about what a request still sends although its handler did not read it, and tells whether
 * the answer must say `Connection: close`. Up to `max_drain_bytes` are drained and the connection
 * kept; for more it ends.
 *
 * Nothing is waited for. A body that is cancelled is drained by Deno, one that is left alone makes
 * it say close, swallow the rest and close. (2.9.5 closes after a cancelled body too, unless it
 * came with the head in 512 bytes.)
 */
export function drainBody(request: Request, maxDrainBytes: number): boolean {
  const declared = declaredLength(request);
  const chunked = request.headers.has("transfer-encoding");
  if ((declared === undefined || declared === 0) && !chunked) return false;
  if (wasAbandoned(request)) return true;
  const kept = declared !== undefined && declared <= maxDrainBytes;
  // Before the first look at `body`, which alone makes later versions keep the connection.
  if (!kept && declared !== undefined && declared > DENO_FIRST_READ_BYTES) return false;
  if (request.bodyUsed || request.body === null || request.body.locked) return false;
  request.body.cancel().catch(() => {});
  return !kept;
}
