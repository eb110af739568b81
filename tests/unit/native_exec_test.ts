import assert from "node:assert/strict";
import { decodeFacts, FACTS_BYTES } from "../../src/native/exec.ts";

Deno.test("offsets beyond 2^53 are exact", () => {
  const view = new DataView(new ArrayBuffer(FACTS_BYTES));
  view.setBigUint64(40, 2n ** 63n + 1n, true);
  assert.equal(decodeFacts(view).total, 2n ** 63n + 1n);
});
