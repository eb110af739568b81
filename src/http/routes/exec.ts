import {
  decodeStart,
  decodeStdin,
  type KillResponse,
  outcomeFrame,
  type PollResponse,
  StartRequest,
  type StartResponse,
  StdinRequest,
  type StdinResponse,
} from "../../contract/exec.ts";
import { parseJson, TooMany } from "../../contract/json.ts";
import type { Limits } from "../../contract/limits.ts";
import { BODY, type ObjectSchema, unknownFields } from "../../contract/object.ts";
import { cut, Refusal } from "../../contract/refusal.ts";
import type { Exec } from "../../exec/exec.ts";
import { type StartNote, startNote } from "../../exec/launch.ts";
import { outcomePieces } from "../../exec/outcome.ts";
import type { Registry } from "../../exec/registry.ts";
import type { Log } from "../../log.ts";
import type { Bodies } from "../body.ts";
import { json } from "../respond.ts";
import { type Handlers, reasonOf } from "../router.ts";

/** Until this age a running exec's poll waits for its end: a client that polls once a second sees a short command. */
const YOUNG_MS = 100;
/** Captured output up to here is answered as one piece. */
const SMALL_BYTES = 32 * 1024;

/** What the exec routes need. */
export interface ExecRoutesOptions {
  /** The registered execs. */
  readonly registry: Registry;
  /** Limits in force. */
  readonly limits: Limits;
  /** Where refused starts and unknown fields are logged. */
  readonly log: Log;
  /** Reads the bodies. */
  readonly bodies: Bodies;
}

/** The routes of single commands, but for the stream. */
export type ExecRoutes = Pick<
  Handlers,
  "exec_start" | "exec_poll" | "exec_ack" | "exec_kill" | "exec_stdin"
>;

/** Makes the handlers of start, poll, ack, kill and stdin. */
export function execRoutes({ registry, limits, log, bodies }: ExecRoutesOptions): ExecRoutes {
  /** Such a field is ignored: a newer client's, or a slip. */
  function warnOfUnknown(schema: ObjectSchema<unknown>, content: unknown, id = ""): void {
    const fields = unknownFields(schema, content);
    if (fields.length === 0) return;
    log.warn("a request has unknown fields", { exec_id: cut(id), fields: cut(fields.join(", ")) });
  }

  return {
    async exec_start({ request }): Promise<Response> {
      let note: StartNote = {};
      try {
        using body = await bodies.start(request);
        const start = body.decoded((bytes) => {
          const content = parseJson(bytes, BODY);
          note = startNote(content);
          warnOfUnknown(StartRequest, content, note.exec_id);
          return decodeStart(content);
        });
        const exec = await registry.start(start);
        const response: StartResponse = { exec_id: exec.id, phase: exec.phase };
        return json(200, response);
      } catch (error) {
        log.info("start refused", { ...note, reason: reasonOf(error) });
        if (error instanceof TooMany) throw new Refusal("spawn_failed", error.message);
        throw error;
      }
    },

    async exec_poll({ id }): Promise<Response> {
      const exec = await registry.get(id);
      const young = YOUNG_MS - exec.ageMs;
      if (exec.phase === "running" && young > 0 && !registry.draining) {
        await exec.untilPublished(young);
      }
      if (exec.phase === "exited") return outcomeAnswer(exec);
      const response: PollResponse = { exec_id: exec.id, phase: exec.phase };
      return json(200, response);
    },

    async exec_ack({ id }): Promise<Response> {
      const exec = await registry.get(id);
      // Pinned before the ack frees it; nothing comes between, for there is no await.
      const pin = exec.pin();
      try {
        registry.ack(exec);
        return outcomeAnswer(exec);
      } finally {
        pin[Symbol.dispose]();
      }
    },

    async exec_kill({ id }): Promise<Response> {
      const exec = await registry.get(id);
      const response: KillResponse = { exec_id: exec.id, killed: await registry.kill(exec) };
      return json(200, response);
    },

    async exec_stdin({ id, request }): Promise<Response> {
      using body = await bodies.stdin(request);
      const write = body.decoded((bytes) => {
        const content = parseJson(bytes, BODY);
        warnOfUnknown(StdinRequest, content, id);
        return decodeStdin(content);
      });
      const exec = await registry.get(id);
      const written = await exec.writeStdin(write, limits.max_stdin_write_bytes);
      const response: StdinResponse = { exec_id: exec.id, written, eof: write.eof };
      return json(200, response);
    },
  };
}

/** The outcome, in pieces as the client takes them; its memory is kept until the last one. */
function outcomeAnswer(exec: Exec): Response {
  const { exitCode, signal, truncated, writersMayBeAlive, captured } = exec.facts;
  const head = {
    exec_id: exec.id,
    phase: exec.phase,
    exit_code: exitCode,
    signal,
    truncated,
    writers_may_be_alive: writersMayBeAlive,
  };
  const headers = { "content-type": "application/json" };
  const bytes = captured[0] + captured[1];
  // Nothing to decode: so ends many a short command.
  if (bytes === 0) return new Response(outcomeFrame(head).join(""), { headers });
  const pieces = outcomePieces(head, exec.native);
  if (bytes <= SMALL_BYTES) return new Response([...pieces].join(""), { headers });
  const pin = exec.pin();
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    pull(controller): void {
      try {
        const { done, value } = pieces.next();
        if (!done) return controller.enqueue(encoder.encode(value));
      } catch (error) {
        // A disk that cannot be read: nobody reads on.
        pin[Symbol.dispose]();
        throw error;
      }
      pin[Symbol.dispose]();
      controller.close();
    },
    cancel(): void {
      pin[Symbol.dispose]();
    },
  }, { highWaterMark: 0 });
  return new Response(body, { headers });
}
