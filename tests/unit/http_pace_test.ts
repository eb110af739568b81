import { ok, strictEqual } from "node:assert/strict";
import { within } from "../support/await_event.ts";
import { Pace } from "../../src/http/pace.ts";

const MS = 40;

/** A pace of 100 bytes within 40 ms. */
function pace(): {
  readonly pace: Pace;
  readonly givenUp: Promise<void>;
  readonly isOver: () => boolean;
} & Disposable {
  const { promise, resolve } = Promise.withResolvers<void>();
  let over = false;
  promise.then(() => over = true);
  // The timer of a pace keeps no process alive.
  const alive = setInterval(() => {}, 1000);
  const made = new Pace({ bytes: 100, ms: MS, giveUp: resolve });
  return {
    pace: made,
    givenUp: promise,
    isOver: () => over,
    [Symbol.dispose](): void {
      clearInterval(alive);
      made[Symbol.dispose]();
    },
  };
}

const after = <T>(ms: number, value: T): Promise<T> =>
  new Promise((resolve) => setTimeout(resolve, ms, value));

Deno.test("a body of which nothing comes is given up after its time", async () => {
  using slow = pace();
  const started = performance.now();
  slow.pace.read(new Promise<{ value: Uint8Array }>(() => {}));
  await within("its end", slow.givenUp);
  ok(performance.now() - started >= MS - 1);
});

Deno.test("one that drips is given up, one that brings enough is not", async () => {
  using slow = pace();
  using fast = pace();
  const part = (bytes: number): Promise<{ value: Uint8Array }> =>
    after(5, { value: new Uint8Array(bytes) });
  while (!slow.isOver()) {
    await Promise.all([slow.pace.read(part(1)), fast.pace.read(part(100))]);
  }
  strictEqual(fast.isOver(), false);
});

Deno.test("what others keep waiting counts for nothing", async () => {
  using busy = pace();
  await busy.pace.read(Promise.resolve({ value: new Uint8Array(1) }));
  // A disk that takes five times as long.
  await after(5 * MS, 0);
  strictEqual(busy.isOver(), false);
});
