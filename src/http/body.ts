import type { Limits } from "../contract/limits.ts";
import { PlainRefusal, Refusal } from "../contract/refusal.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** Most bytes of a start body that are looked at: no kernel takes such an argument list. */
const START_BYTES = 16 * MIB;
/** Most bytes of a stdin body with the default limits. */
const STDIN_BYTES = 2 * MIB;
/** Most bytes of a run hook's body; the platform allows 4096 for the payload. */
const RUN_HOOK_BYTES = 64 * KIB;

/** A body that ended before its end: the client vanished or broke the framing. */
export class BodyLost extends Error {
  /** Makes the error; what was read so far is dropped. */
  constructor() {
    super("Cannot read the body: it ended early");
    this.name = "BodyLost";
  }
}

/**
 * Body of a start. Throws 413 above `max_body_bytes`, `spawn_failed` above 16 MiB once all of it
 * was dropped, and {@link BodyLost}.
 */
export async function readStartBody(request: Request, limits: Limits): Promise<Uint8Array> {
  const body = await readBody(request, START_BYTES, limits.max_body_bytes);
  if (body === "too large") {
    throw new PlainRefusal(413, `The body exceeds ${limits.max_body_bytes} bytes.`);
  }
  if (body === "dropped") {
    throw new Refusal("spawn_failed", "the argument list is too long: the body exceeds 16 MiB");
  }
  return body;
}

/** Body of a stdin write. Throws `stdin_write_too_large` and {@link BodyLost}. */
export async function readStdinBody(request: Request, limits: Limits): Promise<Uint8Array> {
  const max = Math.max(STDIN_BYTES, 2 * limits.max_stdin_write_bytes);
  const body = await readBody(request, max, max);
  if (typeof body === "string") {
    throw new Refusal("stdin_write_too_large", `the body exceeds ${max} bytes`);
  }
  return body;
}

/** Body of the run hook. Throws 400 above 64 KiB, and {@link BodyLost}. */
export async function readRunHookBody(request: Request): Promise<Uint8Array> {
  const body = await readBody(request, RUN_HOOK_BYTES, RUN_HOOK_BYTES);
  if (typeof body === "string") throw new PlainRefusal(400, "the body exceeds 64 KiB");
  return body;
}

/**
 * Reads a body and keeps up to `keepBytes` of it. A larger one is read on and dropped, up to
 * `maxBytes`; one that is declared larger than that is refused unread, and an undeclared one as
 * soon as it passes.
 */
export async function readBody(
  request: Request,
  keepBytes: number,
  maxBytes: number,
): Promise<Uint8Array | "dropped" | "too large"> {
  const declared = declaredLength(request);
  if (declared !== undefined && declared > maxBytes) return "too large";
  if (request.body === null) return new Uint8Array();
  try {
    if (declared !== undefined && declared <= Math.min(keepBytes, maxBytes)) {
      return await request.bytes();
    }
    return await collect(request, request.body.getReader(), keepBytes, maxBytes);
  } catch {
    // Deno's errors carry nothing worth keeping: bytes ended early or chunks were malformed.
    throw new BodyLost();
  }
}

/** The `Content-Length`; Deno has refused a request whose header is malformed. */
export function declaredLength(request: Request): number | undefined {
  const header = request.headers.get("content-length");
  return header === null ? undefined : Number(header);
}

const abandoned = new WeakSet<Request>();

/** Gives up a body in its middle: what is still to come is not worth its connection. */
export function abandonBody(
  request: Request,
  reader: ReadableStreamDefaultReader<Uint8Array>,
): void {
  abandoned.add(request);
  // Not awaited: the answer never waits for body bytes.
  reader.cancel().catch(() => {});
}

/** Whether {@link abandonBody} was called for the request. */
export function wasAbandoned(request: Request): boolean {
  return abandoned.has(request);
}

async function collect(
  request: Request,
  reader: ReadableStreamDefaultReader<Uint8Array>,
  keepBytes: number,
  maxBytes: number,
): Promise<Uint8Array | "dropped" | "too large"> {
  let chunks: Uint8Array[] = [];
  let received = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    received += next.value.length;
    if (received > maxBytes) {
      abandonBody(request, reader);
      return "too large";
    }
    if (received > keepBytes) chunks = [];
    else chunks.push(next.value);
  }
  return received > keepBytes ? "dropped" : concatenate(chunks, received);
}

function concatenate(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}
