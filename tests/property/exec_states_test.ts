import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import fc from "fast-check";
import type { PollResponse, StartResponse } from "../../src/contract/exec.ts";
import type { Slug } from "../../src/contract/refusal.ts";
import { json, refused } from "../support/answers.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { runs } from "../support/property.ts";
import type { StreamRest } from "../support/sse.ts";
import { withDaemon } from "../support/with_daemon.ts";

/** Repeats each line; `x7` makes it exit with 7, `s11` die of signal 11, the end of its stdin exit with 0. */
const OBEDIENT = "ulimit -c 0; while IFS= read -r line; do case $line in " +
  'x*) exit "${line#x}";; s*) kill "-${line#s}" $$;; *) printf "%s\\n" "$line";; esac; done; exit 0';

const SLOTS = 3;

/** One step; of what kind it is an error in the model's state is a prediction like any other. */
type Step =
  | { readonly what: "start"; readonly stdin: boolean }
  | { readonly what: "write"; readonly text: string }
  | { readonly what: "exit"; readonly code: number }
  | { readonly what: "crash"; readonly signal: number }
  | { readonly what: "attach" | "vanish"; readonly offset: number }
  | { readonly what: "fail" | "poll" | "ack" | "kill" | "eof" | "flood" };

type Stepped = Step & { readonly slot: number };

const simple = ["fail", "poll", "poll", "ack", "ack", "kill", "eof", "flood"] as const;
const kinds: readonly (readonly [weight: number, step: fc.Arbitrary<Step>])[] = [
  [4, fc.boolean().map((plain) => ({ what: "start", stdin: !plain }))],
  [4, fc.stringMatching(/^[a-r]{1,40}$/).map((text) => ({ what: "write", text }))],
  [1, fc.nat({ max: 255 }).map((code) => ({ what: "exit", code }))],
  [1, fc.constantFrom(9, 11, 15).map((signal) => ({ what: "crash", signal }))],
  [3, fc.record({ what: fc.constantFrom("attach", "vanish"), offset: fc.nat({ max: 60 }) })],
  [8, fc.constantFrom(...simple).map((what) => ({ what }))],
];
const stepArbitrary: fc.Arbitrary<Stepped> = fc.tuple(
  fc.oneof(...kinds.map(([weight, arbitrary]) => ({ weight, arbitrary }))),
  fc.nat({ max: SLOTS - 1 }),
).map(([step, slot]) => ({ ...step, slot }));

/** What the protocol says of one id. */
interface Model {
  phase: "none" | "running" | "exited" | "acked";
  stdin: "none" | "open" | "closed";
  output: string;
  code: number | null;
  signal: number | null;
}

type Fate = readonly [code: number | null, signal: number | null];

/** A stream that is being read: what it has to say is known when the command has ended. */
interface Watcher {
  readonly model: Model;
  readonly offset: number;
  /** It came after the ack: nothing is left but the end. */
  readonly late: boolean;
  readonly rest: Promise<StreamRest>;
}

/** One life of some ids: takes steps, and compares what the daemon says with the model. */
class Life {
  readonly #daemon: Daemon;
  readonly #name = crypto.randomUUID();
  readonly #models: Model[] = Array.from({ length: SLOTS }, () => ({
    phase: "none",
    stdin: "none",
    output: "",
    code: null,
    signal: null,
  }));
  readonly #watchers: Watcher[] = [];

  constructor(daemon: Daemon) {
    this.#daemon = daemon;
  }

  async take(step: Stepped): Promise<void> {
    const model = this.#models[step.slot];
    ok(model !== undefined);
    const id = `${this.#name}/${step.slot}`;
    switch (step.what) {
      case "start":
        return await this.#start(model, id, step.stdin);
      case "fail": {
        if (model.phase !== "none") return;
        const body = { exec_id: id, command: ["/no/such/program"] };
        const answer = await this.#daemon.post("/v1/exec/start", body);
        return void await refused(answer, 500, "spawn_failed");
      }
      case "poll":
        return await this.#poll(model, id);
      case "ack":
        return await this.#ack(model, id);
      case "kill":
        return await this.#kill(model, id);
      case "write":
        return await this.#write(model, id, step.text);
      case "exit":
        return await this.#last(model, id, `x${step.code}\n`, step.code, null);
      case "crash":
        return await this.#last(model, id, `s${step.signal}\n`, null, step.signal);
      case "eof":
        return await this.#last(model, id, null, 0, null);
      case "flood":
        return await this.#flood(model, id);
      case "attach":
      case "vanish":
        return await this.#attach(model, id, step.offset, step.what === "vanish");
    }
  }

  /** Ends everything, and looks at what the streams said. */
  async end(): Promise<void> {
    const busy = this.#models.some(({ phase }) => phase === "running");
    strictEqual((await this.#daemon.guest.health()).busy, busy);
    for (const [index, model] of this.#models.entries()) {
      const id = `${this.#name}/${index}`;
      if (model.phase === "running") await this.#kill(model, id);
      if (model.phase === "exited") await this.#ack(model, id);
      await this.#poll(model, id);
    }
    for (const { model, offset, late, rest } of this.#watchers) {
      const seen = await rest;
      const { exit, gaps } = seen;
      const { output, code, signal } = model;
      const total = BigInt(output.length);
      deepStrictEqual([exit.exit_code, exit.signal, exit.offset], [code, signal, total]);
      strictEqual(seen.text(), late ? "" : output.slice(offset));
      const gone = late && offset < output.length;
      deepStrictEqual(gaps, gone ? [{ event: "gap", from: BigInt(offset), to: total }] : []);
    }
  }

  /** Leaves nothing running for the next life, however this one went. */
  async abandon(): Promise<void> {
    for (const [index, { phase }] of this.#models.entries()) {
      if (phase === "running") await this.#daemon.guest.kill(`${this.#name}/${index}`);
    }
  }

  async #start(model: Model, id: string, stdin: boolean): Promise<void> {
    const command = stdin ? [OBEDIENT] : ["exec sleep infinity"];
    const body = { exec_id: id, command, shell: true, stdin };
    const answer = await json<StartResponse>(await this.#daemon.post("/v1/exec/start", body));
    if (model.phase === "none") {
      model.phase = "running";
      model.stdin = stdin ? "open" : "none";
    }
    deepStrictEqual(answer, { exec_id: id, phase: model.phase });
  }

  async #poll(model: Model, id: string): Promise<void> {
    const answer = await this.#daemon.fetch(execPath(id));
    if (model.phase === "none") return void await refused(answer, 404, "unknown_exec");
    deepStrictEqual(await json<PollResponse>(answer), {
      exec_id: id,
      phase: model.phase,
      ...(model.phase === "exited" ? outcomeOf(model) : {}),
    });
  }

  async #ack(model: Model, id: string): Promise<void> {
    const answer = await this.#daemon.post(execPath(id, "ack"));
    if (model.phase === "none") return void await refused(answer, 404, "unknown_exec");
    if (model.phase === "running") return void await refused(answer, 409, "still_running");
    if (model.phase === "acked") return void await refused(answer, 409, "already_acked");
    model.phase = "acked";
    const acked = { exec_id: id, phase: "acked", ...outcomeOf(model) };
    deepStrictEqual(await json<PollResponse>(answer), acked);
  }

  async #kill(model: Model, id: string): Promise<void> {
    const answer = await this.#daemon.post(execPath(id, "kill"));
    if (model.phase === "none") return void await refused(answer, 404, "unknown_exec");
    deepStrictEqual(await json(answer), { exec_id: id, killed: model.phase === "running" });
    if (model.phase === "running") await this.#ended(model, id, null, 15);
  }

  async #write(model: Model, id: string, line: string): Promise<void> {
    const slug = refusalOf(model);
    const answer = await this.#send(id, `${line}\n`);
    if (slug !== null) return void await refused(answer, ...slug);
    deepStrictEqual(await json(answer), { exec_id: id, written: line.length + 1, eof: false });
    await using stream = await this.#daemon.stream(id, model.output.length);
    await stream.untilOutput(`${line}\n`);
    model.output += `${line}\n`;
  }

  /** A line, or the end of stdin, that the command does not survive. */
  async #last(
    model: Model,
    id: string,
    line: string | null,
    ...[code, signal]: Fate
  ): Promise<void> {
    const slug = refusalOf(model);
    const answer = line === null
      ? await this.#daemon.post(execPath(id, "stdin"), { signal: "eof" })
      : await this.#send(id, line);
    if (slug !== null) return void await refused(answer, ...slug);
    await json(answer);
    await this.#ended(model, id, code, signal);
  }

  async #flood(model: Model, id: string): Promise<void> {
    const answer = await this.#send(id, "y".repeat(1_048_577));
    if (model.phase === "none" || model.stdin === "none") {
      return void await refused(answer, ...refusalOf(model) ?? [500, "stdin_write_failed"]);
    }
    await refused(answer, 413, "stdin_write_too_large");
  }

  async #attach(model: Model, id: string, offset: number, vanish: boolean): Promise<void> {
    if (model.phase === "none") {
      const answer = await this.#daemon.fetch(`${execPath(id, "stream")}?offset=${offset}`);
      return void await refused(answer, 404, "unknown_exec");
    }
    const late = model.phase === "acked";
    const stream = await this.#daemon.stream(id, offset);
    if (vanish) return await stream[Symbol.asyncDispose]();
    const rest = stream.rest();
    rest.catch(() => {});
    this.#watchers.push({ model, offset, late, rest });
  }

  async #ended(model: Model, id: string, ...[code, signal]: Fate): Promise<void> {
    await this.#daemon.follow(id);
    Object.assign(model, { phase: "exited", code, signal });
    if (model.stdin === "open") model.stdin = "closed";
  }

  #send(id: string, text: string): Promise<Response> {
    const data_b64 = new TextEncoder().encode(text).toBase64();
    return this.#daemon.post(execPath(id, "stdin"), { data_b64 });
  }
}

/** What a write that is small enough meets; null where it is taken. */
function refusalOf({ phase, stdin }: Model): [status: number, slug: Slug] | null {
  if (phase === "none") return [404, "unknown_exec"];
  if (stdin === "none") return [409, "stdin_not_requested"];
  return stdin === "closed" ? [410, "stdin_closed"] : null;
}

function outcomeOf({ output, code, signal }: Model): Omit<PollResponse, "exec_id" | "phase"> {
  return {
    exit_code: code,
    signal,
    stdout: output,
    stderr: "",
    truncated: false,
    writers_may_be_alive: false,
  };
}

withDaemon.test("whatever is asked of execs in whatever order, each answer is the model's", async ({ daemon }) => {
  await fc.assert(
    fc.asyncProperty(fc.array(stepArbitrary, { maxLength: 60, size: "max" }), async (steps) => {
      const life = new Life(daemon);
      try {
        for (const step of steps) await life.take(step);
        await life.end();
      } finally {
        await life.abandon();
      }
    }),
    runs(20),
  );
});
