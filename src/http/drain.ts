import { declaredLength } from "./body.ts";

/**
 * How long an answer may be held up by the rest of a small body that is on its way: Deno keeps a connection only if
 * all of a body was there, or read, when the answer comes. (2.9.5 keeps it only if the body came with the head in the
 * first 512 bytes; later versions also if it was read.)
 */
const GRACE_MS = 10;

/** Deno never has more than this of an unread body in its hands, so a longer one keeps no connection. */
const DENO_BUFFER_BYTES = 64 * 1024;

/**
 * Takes what a request still sends although its handler did not read it, as much as `max_drain_bytes` allows, and
 * tells whether the answer must say `Connection: close`. Deno says so itself wherever the body is not complete,
 * swallows the rest and closes.
 */
export async function drainBody(request: Request, maxDrainBytes: number): Promise<boolean> {
  const declared = declaredLength(request);
  const chunked = request.headers.has("transfer-encoding");
  if ((declared === undefined || declared === 0) && !chunked) return false;
  if (request.body === null || request.bodyUsed || request.body.locked) return false;
  const kept = declared !== undefined && declared <= maxDrainBytes;
  if (!kept && declared !== undefined && declared > DENO_BUFFER_BYTES) return false;
  const arrived = await swallow(request.body.getReader(), kept ? declared : DENO_BUFFER_BYTES);
  return arrived && !kept;
}

/** Reads up to `maxBytes` for a moment; true when that was all. */
async function swallow(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  maxBytes: number,
): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), GRACE_MS);
  });
  try {
    let received = 0;
    for (;;) {
      const next = await Promise.race([reader.read(), late]);
      if (next?.done === true) return true;
      received += next?.value.length ?? Infinity;
      if (received > maxBytes) break;
    }
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
  reader.cancel().catch(() => {});
  return false;
}
