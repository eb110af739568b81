/** A body that was not read to its end: the client vanished, broke the framing or stalled. */
export class BodyLost extends Error {
  /** What the answer says. */
  readonly text: string;

  /** Makes the error; what was read so far is dropped. */
  constructor(text = "The body ended early.") {
    super(`Cannot read the body: ${text}`);
    this.name = "BodyLost";
    this.text = text;
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
export function abandonBody(request: Request): void {
  ending.add(request);
}

/** Requests whose body comes too slowly. */
const slow = new WeakSet<Request>();

/** Gives up a body because it comes too slowly: for the rest of it Deno would wait, with a buffer. */
export function giveUpBody(request: Request): void {
  abandonBody(request);
  slow.add(request);
}

/** Whether a request's body was given up because it came too slowly. */
export function isTooSlow(request: Request): boolean {
  return slow.has(request);
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
