/** A command's stream, followed over lost connections. */

import { ConnectionLost, ProtocolViolation } from "./errors.ts";
import { checkedBody, type Requests, withQuery } from "./requests.ts";
import { decodeFrame, type ExecEvent, FrameParser } from "./sse.ts";

/** Behind every output: a stream from there on has the exit alone. */
export const BEHIND_ALL: bigint = 2n ** 64n - 1n;

/**
 * A silence after which a connection counts as lost, in milliseconds: a guest sends a comment at least every 15 s
 * unless it was told otherwise.
 */
const SILENCE_MS = 60_000;

/** How to follow a stream. */
export interface FollowOptions {
  /** Offset of the first byte that is wanted; 0 unless given. */
  readonly offset?: number | bigint | undefined;
  /** Stops following; the command goes on. */
  readonly signal?: AbortSignal | undefined;
  /** Told of each lost connection, with the offset where the stream goes on. */
  readonly onReconnect?: ((offset: bigint, cause: unknown) => void) | undefined;
}

/**
 * The events of a command, each byte once: a lost connection is made again at the exact byte, for as long as the guest's
 * retry time, counted from the last answer. Ends with the exit. A gap is an event like others: nobody can bring those
 * bytes back. Throws `UnknownExec`, other refusals, and `ConnectionLost` where no new connection could be made.
 */
export async function* followEvents(
  requests: Requests,
  path: string,
  { offset = 0, signal, onReconnect }: FollowOptions,
): AsyncGenerator<ExecEvent, void, void> {
  const retry = requests.retry();
  let at = BigInt(offset);
  for (;;) {
    try {
      const ask = {
        what: "follow the output",
        method: "GET",
        path: withQuery(path, { offset: at }),
      };
      for await (const event of eventsOnce(requests, { ...ask, signal })) {
        retry.succeeded();
        const next = inOrder(event, at);
        if (next === undefined) continue;
        at = endOf(next);
        yield next;
        if (next.event === "exit") return;
      }
      throw new ConnectionLost("Cannot follow the output: the connection ended before the exit");
    } catch (error) {
      await retry.failed(error, signal);
      onReconnect?.(at, error);
    }
  }
}

/** The events of one connection, which ends when they are left. */
async function* eventsOnce(
  requests: Requests,
  ask: {
    readonly what: string;
    readonly method: string;
    readonly path: string;
    readonly signal: AbortSignal | undefined;
  },
): AsyncGenerator<ExecEvent, void, void> {
  // One signal for the request: the caller's, the silence's, and the end of this connection.
  const ending = new AbortController();
  const signal = ask.signal === undefined
    ? ending.signal
    : AbortSignal.any([ask.signal, ending.signal]);
  const quiet = new Silence(() => ending.abort());
  try {
    const response = await requests.once({ ...ask, signal });
    const parser = new FrameParser();
    for await (const piece of quiet.watched(checkedBody(response, { ...ask, signal }))) {
      for (const frame of parser.push(piece)) {
        const event = decodeFrame(frame);
        if (event !== undefined) yield event;
      }
    }
  } catch (cause) {
    ask.signal?.throwIfAborted();
    if (!ending.signal.aborted) throw cause;
    throw new ConnectionLost(`Cannot follow the output: silence for ${SILENCE_MS} ms`, { cause });
  } finally {
    quiet.end();
    ending.abort();
  }
}

/**
 * Ends a connection that is silent while somebody waits for it. One timer looks at it from time to time, for one that
 * was set for each piece would take a tenth of the time of a fast stream.
 */
class Silence {
  readonly #timer: ReturnType<typeof setInterval>;
  /** Since when a piece is waited for; undefined while one is worked on. */
  #since: number | undefined = performance.now();

  constructor(broken: () => void) {
    this.#timer = setInterval(() => {
      if (performance.now() - (this.#since ?? Infinity) >= SILENCE_MS) broken();
    }, SILENCE_MS / 12);
  }

  async *watched<T>(source: AsyncGenerator<T, void, void>): AsyncGenerator<T, void, void> {
    for await (const item of source) {
      this.#since = undefined;
      yield item;
      this.#since = performance.now();
    }
  }

  end(): void {
    clearInterval(this.#timer);
  }
}

/** What of an event lies at `at` or behind it; undefined for nothing. Throws where bytes are passed over silently. */
function inOrder(event: ExecEvent, at: bigint): ExecEvent | undefined {
  const from = event.event === "gap" ? event.from : event.offset;
  if (from > at) {
    throw new ProtocolViolation(`Cannot follow the output: bytes ${at} to ${from} never came`);
  }
  // Who attached behind the end gets the exit alone.
  if (from === at || event.event === "exit") return event;
  if (endOf(event) <= at) return undefined;
  if (event.event === "gap") return { ...event, from: at };
  return { ...event, offset: at, bytes: event.bytes.slice(Number(at - from)) };
}

function endOf(event: ExecEvent): bigint {
  if (event.event === "gap") return event.to;
  return event.event === "exit" ? event.offset : event.offset + BigInt(event.bytes.length);
}
