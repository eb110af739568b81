import { exceeds, type Limits } from "../contract/limits.ts";
import { bodyTooLarge, PlainRefusal, Refusal } from "../contract/refusal.ts";
import { BodyLost } from "./body_lost.ts";
import { BodyMemory, BodyPlace } from "./body_memory.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** Most bytes of a start body that are looked at: no kernel takes such an argument list. */
const START_BYTES = 16 * MIB;
/** Most bytes of a stdin body with the default limits. */
const STDIN_BYTES = 2 * MIB;
/** Most bytes of a run hook's body; the platform allows 4096 for the payload. */
const RUN_HOOK_BYTES = 64 * KIB;

/** What bodies of starts hold together, in bytes: two of the largest, so that one arrives while one is used. */
const START_MEMORY = 2 * START_BYTES;
/** A start's text, values and lists take several times its bytes: nearly each large one is cleared away by itself. */
const START_COLLECT = 8 * MIB;
/** What stdin bodies hold together, at least, in bytes. */
const STDIN_MEMORY = 32 * MIB;
/** They leave two strings each, and there may be hundreds a second. */
const STDIN_COLLECT = 32 * MIB;
/**
 * Up to here a body costs no more than its connection does anyway, and waits for nobody: that is nearly every one, and
 * every hook. The beginnings of others are read too, so that who declares much and sends little takes no place.
 */
const FREE_BYTES = 64 * KIB;

/** Where the bodies of starts and of stdin writes are collected: neither waits for the other. */
export interface Memories {
  /** Of starts. */
  readonly start: BodyMemory;
  /** Of stdin writes. */
  readonly stdin: BodyMemory;
}

/** Memory for bodies. `collect` frees at once what they left behind. */
export function memoriesFor(limits: Limits, collect?: () => void): Memories {
  return {
    start: new BodyMemory({ bytes: START_MEMORY, collect, collectBytes: START_COLLECT }),
    stdin: new BodyMemory({
      bytes: Math.max(STDIN_MEMORY, stdinBytes(limits)),
      collect,
      collectBytes: STDIN_COLLECT,
    }),
  };
}

/**
 * Body of a start. Throws 413 above `max_body_bytes`, `spawn_failed` above 16 MiB once all of it
 * was dropped, and {@link BodyLost}.
 */
export async function readStartBody(
  request: Request,
  limits: Limits,
  memory: BodyMemory,
): Promise<Body> {
  const maxBytes = limits.max_body_bytes;
  const body = await readBody(request, { keepBytes: START_BYTES, maxBytes, memory });
  if (body === "too large") throw bodyTooLarge(maxBytes);
  if (body === "dropped") {
    throw new Refusal("spawn_failed", "the argument list is too long: the body exceeds 16 MiB");
  }
  return body;
}

/** Body of a stdin write. Throws `stdin_write_too_large` and {@link BodyLost}. */
export async function readStdinBody(
  request: Request,
  limits: Limits,
  memory: BodyMemory,
): Promise<Body> {
  const max = stdinBytes(limits);
  const body = await readBody(request, { keepBytes: max, maxBytes: max, memory });
  if (typeof body === "string") {
    const text = exceeds("the body", max, "max_stdin_write_bytes");
    throw new Refusal("stdin_write_too_large", text);
  }
  return body;
}

/** Body of the run hook. Throws 400 above 64 KiB, and {@link BodyLost}. */
export async function readRunHookBody(request: Request): Promise<Body> {
  const body = await readBody(request, { keepBytes: RUN_HOOK_BYTES, maxBytes: RUN_HOOK_BYTES });
  if (typeof body === "string") throw new PlainRefusal(400, "the body exceeds 64 KiB");
  return body;
}

function stdinBytes(limits: Limits): number {
  return Math.max(STDIN_BYTES, 2 * limits.max_stdin_write_bytes);
}

/** How a body is read. */
interface Reading {
  /** Most that is kept of it, in bytes; a larger one is read on and dropped. */
  readonly keepBytes: number;
  /** Most that it may have: one that declares more is refused unread, another as soon as it passes. */
  readonly maxBytes: number;
  /** Where it is collected; needed if more than 64 KiB are kept. */
  readonly memory?: BodyMemory;
}

async function readBody(
  request: Request,
  reading: Reading,
): Promise<Body | "dropped" | "too large"> {
  const declared = declaredLength(request);
  if (declared !== undefined && declared > reading.maxBytes) return "too large";
  if (request.body === null) return new Body(new Uint8Array());
  beginBody(request);
  if (declared !== undefined && declared <= FREE_BYTES) {
    return new Body(await request.bytes().catch(lost));
  }
  return await collect(request, request.body.getReader(), declared, reading);
}

/** Deno's errors carry nothing worth keeping: bytes ended early or chunks were malformed. */
function lost(): never {
  throw new BodyLost();
}

/** Reads a body piece by piece; what is beyond the first 64 KiB once it has its place in the memory. */
async function collect(
  request: Request,
  reader: ReadableStreamDefaultReader<Uint8Array>,
  declared: number | undefined,
  { keepBytes, maxBytes, memory }: Reading,
): Promise<Body | "dropped" | "too large"> {
  const mostBytes = Math.min(declared ?? keepBytes, keepBytes);
  const giveUp = (): void => abandonBody(request, reader);
  using claims = new DisposableStack();
  let place: BodyPlace | undefined;
  let dropped = declared !== undefined && declared > keepBytes;
  let kept = new Uint8Array(dropped ? 0 : FREE_BYTES);
  let received = 0;
  for (;;) {
    const { done, value } = await reader.read().catch(lost);
    place?.check();
    if (done) break;
    const at = received;
    received += value.length;
    if (received > maxBytes) {
      giveUp();
      return "too large";
    }
    if (received > keepBytes && !dropped) {
      dropped = true;
      kept = new Uint8Array();
      claims.dispose();
    }
    if (dropped) continue;
    if (received > kept.length) {
      place = await memory?.place(mostBytes, giveUp);
      if (place !== undefined) claims.use(place);
      const larger = new Uint8Array(mostBytes);
      larger.set(kept.subarray(0, at));
      kept = larger;
    }
    kept.set(value, at);
    if (place !== undefined) place.received = received;
  }
  if (dropped) return "dropped";
  await place?.complete();
  return new Body(kept.subarray(0, received), claims.move());
}

/** A whole body; disposed of once nothing is kept of it, or of what was made of it. */
export class Body implements Disposable {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #place: Disposable | undefined;

  /** A body, and what its place in the memory is left by. */
  constructor(bytes: Uint8Array<ArrayBuffer>, place?: Disposable) {
    this.#bytes = bytes;
    this.#place = place;
  }

  /** What `decode` makes of its bytes, which are gone then. */
  decoded<T>(decode: (bytes: Uint8Array) => T): T {
    try {
      return decode(this.#bytes);
    } finally {
      // Freed now, and not when they are collected: what was made of them is still to be used.
      if (this.#place !== undefined) this.#bytes.buffer.transfer(0);
    }
  }

  /** Leaves the place. */
  [Symbol.dispose](): void {
    this.#place?.[Symbol.dispose]();
  }
}

/** The `Content-Length`; Deno has refused a request whose header is malformed. */
export function declaredLength(request: Request): number | undefined {
  const header = request.headers.get("content-length");
  return header === null ? undefined : Number(header);
}

/** Whether something follows the head of an HTTP/1 request. */
export function hasBody(request: Request): boolean {
  return (declaredLength(request) ?? 0) > 0 || request.headers.has("transfer-encoding");
}

/** Requests whose connection ends with the answer: what they leave in it is worth less than it. */
const ending = new WeakSet<Request>();

/**
 * Most bytes of a body that leave its connection as it was. At each reading Deno 2.9.8 takes as much from the socket as
 * the largest piece that was ever asked for on that connection; what is more than the piece asked for now waits in its
 * memory, and is moved at each reading. Behind a large body another one would pile up there, whole.
 */
const KEPT_BYTES = 4096;

/** A body is about to be read: its connection is kept behind a small one only. */
export function beginBody(request: Request): void {
  if ((declaredLength(request) ?? Infinity) > KEPT_BYTES) ending.add(request);
}

/** Gives up a body in its middle: what is still to come is not worth its connection. */
export function abandonBody(
  request: Request,
  reader: { readonly cancel: () => Promise<void> | void },
): void {
  ending.add(request);
  // Not awaited: the answer never waits for body bytes.
  Promise.resolve(reader.cancel()).catch(() => {});
}

/**
 * Decides about what a request still sends although nobody reads it, and tells whether the answer must say
 * `Connection: close`. Nothing is waited for. A body that is cancelled Deno drains, and keeps the connection; one that
 * nobody has looked at makes it say close while there is more to come, swallow that and close.
 */
export function leaveBody(request: Request, maxDrainBytes: number): boolean {
  if (ending.has(request)) return true;
  const declared = declaredLength(request);
  // Not even `bodyUsed` may be asked of the others: that alone makes Deno keep the connection.
  if (declared !== undefined && declared > 0 && declared <= maxDrainBytes) {
    if (!request.bodyUsed) request.body?.cancel().catch(() => {});
  }
  return false;
}
