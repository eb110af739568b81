import { deepStrictEqual, ok, rejects } from "node:assert/strict";
import { Sink } from "../../src/ctl/sink.ts";
import { eventually } from "../support/await_event.ts";
import { concat, noise } from "../support/bytes.ts";

/** Keeps what it is given, a part of each write at a time, and fails once it has so many bytes. */
class Target {
  readonly writes: Uint8Array[] = [];
  begun = 0;
  /** Writes wait for it. */
  gate: Promise<void> = Promise.resolve();
  readonly #most: number;

  constructor(most: number = Infinity) {
    this.#most = most;
  }

  get bytes(): Uint8Array {
    return concat(this.writes);
  }

  async write(bytes: Uint8Array): Promise<number> {
    this.begun++;
    await this.gate;
    if (this.bytes.length + bytes.length > this.#most) throw new Deno.errors.BrokenPipe();
    const taken = bytes.slice(0, Math.max(1, Math.ceil(bytes.length * 0.7)));
    this.writes.push(taken);
    return taken.length;
  }
}

Deno.test("what comes in one turn is written together, whole and in order", async () => {
  const target = new Target();
  const sink = new Sink(target);
  const bytes = noise(3_000_000);
  for (let at = 0; at < bytes.length; at += 1000) await sink.write(bytes.subarray(at, at + 1000));
  await sink.flush();
  deepStrictEqual(target.bytes, bytes);
  ok(target.writes.length < 300, `${target.writes.length} writes of 3000 pieces`);
});

Deno.test("a few bytes are written without a flush, also when they come in the middle of a write", async () => {
  const target = new Target();
  const gate = Promise.withResolvers<void>();
  target.gate = gate.promise;
  const sink = new Sink(target);
  await sink.write(new TextEncoder().encode("one"));
  await eventually("a write", () => target.begun === 1);
  await sink.write(new TextEncoder().encode("two"));
  // The sink's own timer was set before this one.
  await new Promise((resolve) => setTimeout(resolve));
  gate.resolve();
  await eventually("both", () => new TextDecoder().decode(target.bytes) === "onetwo");
});

Deno.test("a write that failed is told to whoever writes next, however little that is, and to a flush", async () => {
  const sink = new Sink(new Target(0));
  const writing = eventually("a failure", () => sink.write(new Uint8Array(1)).then(() => false));
  await rejects(writing, Deno.errors.BrokenPipe);
  await rejects(sink.flush(), Deno.errors.BrokenPipe);
});
