import { ok } from "node:assert/strict";
import { Quiet } from "../../src/guest/quiet.ts";
import { eventually } from "../support/await_event.ts";

const MIB = 1024 * 1024;

Deno.test("memory that is still held when all is quiet is tried once more, though nobody calls", async () => {
  let ownBytes = 10 * MIB;
  let trims = 0;
  using quiet = new Quiet({ ownBytes: () => ownBytes, trim: () => void trims++ });
  await eventually("the start's", () => trims === 1);
  ownBytes = 40 * MIB;
  quiet.note();
  await eventually("the first try, of two kinds", () => trims === 3);
  const began = performance.now();
  await eventually("the second try", () => trims === 4);
  ok(performance.now() - began > 3000, "what holds it has some time to let go");
});
