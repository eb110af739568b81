import assert from "node:assert/strict";
import { within } from "../support/await_event.ts";
import { type Clock, Collector } from "../../src/exec/collector.ts";

/** A clock that the test moves, with one timer at most. */
class FakeClock implements Clock {
  #now = 0;
  #pending: { readonly atMs: number; readonly run: () => void } | undefined;

  readonly nowMs = (): number => this.#now;

  readonly after = (ms: number, run: () => void): () => void => {
    assert.equal(this.#pending, undefined, "two timers at once");
    this.#pending = { atMs: this.#now + ms, run };
    return () => this.#pending = undefined;
  };

  /** Lets the time come, and every timer that is due on the way. */
  to(ms: number): void {
    while (this.#pending !== undefined && this.#pending.atMs <= ms) {
      const { atMs, run } = this.#pending;
      this.#pending = undefined;
      this.#now = atMs;
      run();
    }
    this.#now = ms;
  }

  get waits(): boolean {
    return this.#pending !== undefined;
  }
}

Deno.test("entries are collected one after the other, each after its own time", () => {
  const time = new FakeClock();
  const collected: string[] = [];
  using collector = new Collector<string>(100, (entry) => collected.push(entry), time);
  collector.add("a");
  time.to(60);
  collector.add("b");
  time.to(99);
  assert.deepEqual(collected, []);
  time.to(100);
  assert.deepEqual(collected, ["a"]);
  time.to(160);
  assert.deepEqual(collected, ["a", "b"]);
  assert.equal(time.waits, false);
});

Deno.test("a disposed collector collects nothing and leaves no timer", () => {
  const time = new FakeClock();
  const collector = new Collector<string>(10, () => assert.fail("collected"), time);
  collector.add("a");
  collector[Symbol.dispose]();
  assert.equal(time.waits, false);
  time.to(100);
});

Deno.test("a wall clock that is set forward or back neither hastens nor delays what is collected", async () => {
  const now = Date.now;
  const hourMs = 3_600_000;
  try {
    for (const jumpMs of [hourMs, -hourMs]) {
      const { promise, resolve } = Promise.withResolvers<string>();
      const begun = performance.now();
      using collector = new Collector<string>(60, resolve);
      collector.add("a");
      Date.now = (): number => now() + jumpMs;
      // Its timer keeps no process alive.
      assert.equal(await within("the collection", promise), "a");
      const tookMs = performance.now() - begun;
      assert.ok(tookMs >= 59 && tookMs < 5000, `${tookMs} ms`);
      Date.now = now;
    }
  } finally {
    Date.now = now;
  }
});
