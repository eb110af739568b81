import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { within } from "../support/await_event.ts";
import { HookBodies, TOO_MANY } from "../../src/http/hook_bodies.ts";

const LONG_MS = 1_000_000;

Deno.test("of 65 bodies of hooks the oldest gives way, and so it does beyond a MiB", () => {
  const bodies = new HookBodies(LONG_MS);
  const givenUp: string[] = [];
  const begin = (name: string) => bodies.begin(name, (text) => givenUp.push(`${name}: ${text}`));
  const arrivals = Array.from({ length: 64 }, (_, n) => begin(`peer ${n}`));
  deepStrictEqual(givenUp, []);
  begin("one more");
  deepStrictEqual(givenUp.splice(0), [`peer 0: ${TOO_MANY}`]);
  // It is gone, and what it brings counts for nothing.
  arrivals[0]?.came(2 * 1024 * 1024);
  arrivals[1]?.[Symbol.dispose]();
  for (const arrival of arrivals.slice(2, 18)) arrival?.came(64 * 1024);
  deepStrictEqual(givenUp, []);
  arrivals[40]?.came(1);
  deepStrictEqual(givenUp, [`peer 2: ${TOO_MANY}`]);
});

Deno.test("a connection brings four at a time", () => {
  const bodies = new HookBodies(LONG_MS);
  const four = Array.from({ length: 4 }, () => bodies.begin("peer", () => {}));
  strictEqual(bodies.isFullFor("peer"), true);
  four[2]?.[Symbol.dispose]();
  four[2]?.[Symbol.dispose]();
  strictEqual(bodies.isFullFor("peer"), false);
  bodies.begin("peer", () => {});
  strictEqual(bodies.isFullFor("peer"), true);
});

Deno.test("each has its time, and those that came whole are not disturbed", async () => {
  const bodies = new HookBodies(30);
  const { promise, resolve } = Promise.withResolvers<string>();
  // The timer that the daemon does not wait for.
  const alive = setInterval(() => {}, 1000);
  bodies.begin("whole", () => resolve("the wrong one"))?.[Symbol.dispose]();
  bodies.begin("slow", resolve);
  strictEqual(await within("its end", promise), "The body did not come within 0.03 s.");
  clearInterval(alive);
});
