import { decodeQuery } from "../../contract/object.ts";
import { type ExitEvent, StreamQuery } from "../../contract/stream.ts";
import type { Exec } from "../../exec/exec.ts";
import type { Registry } from "../../exec/registry.ts";
import { EventBody } from "../event_body.ts";
import type { Handler, Handlers } from "../router.ts";
import { SSE_HEADERS } from "../sse.ts";

/**
 * Until this age a running exec's stream is answered with its first events and not before: most of
 * a short command's answer is then its exit already, and one piece in place of a stream.
 */
const YOUNG_MS = 20;

/** What the stream route needs. */
export interface StreamRoutesOptions {
  /** The registered execs. */
  readonly registry: Registry;
  /** A quiet stream sends a comment after this time, in seconds. */
  readonly keepaliveSecs: number;
}

/** The stream route, and the bodies it has open. */
export class StreamRoutes implements Pick<Handlers, "exec_stream"> {
  readonly #open = new Set<EventBody>();

  /** Answers with the exec's output from an offset on, then live, then its exit. */
  readonly exec_stream: Handler;

  /** Makes the handler. */
  constructor({ registry, keepaliveSecs }: StreamRoutesOptions) {
    this.exec_stream = async ({ id, query }) => {
      const { offset } = decodeQuery(StreamQuery, query);
      const exec = await registry.get(id);
      const body = new EventBody({
        reader: registry.subscribe(exec, offset ?? 0n),
        exit: () => exitOf(exec),
        keepaliveMs: keepaliveSecs * 1000,
        onEnd: () => this.#open.delete(body),
      });
      this.#open.add(body);
      const whole = await body.whole(registry.draining ? 0 : YOUNG_MS - exec.ageMs);
      const answer = whole ?? new ReadableStream(body, { highWaterMark: 0 });
      return new Response(answer, { headers: SSE_HEADERS });
    };
  }

  /** Ends every open stream where it is: without an exit event, so nobody takes it for one. */
  close(): void {
    for (const body of this.#open) body.close();
  }
}

function exitOf(exec: Exec): ExitEvent {
  const { exitCode, signal, truncated, writersMayBeAlive, total } = exec.facts;
  return {
    exit_code: exitCode,
    signal,
    truncated,
    writers_may_be_alive: writersMayBeAlive,
    offset: total,
  };
}
