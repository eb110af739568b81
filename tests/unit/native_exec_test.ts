import assert from "node:assert/strict";
import { decodeFacts, FACTS_BYTES, type Spawn, SpawnEncoder } from "../../src/native/exec.ts";

const SPAWN: Spawn = {
  argv: ["é", ""],
  environment: new Map([["__proto__", "1"], ["A", "x=y"]]),
  cwd: "/tmp",
  uid: 7,
  gid: null,
  stdin: true,
  reap: false,
  timeoutSecs: 0.5,
};

/** The strings of an encoded start, in their order. */
function stringsOf(blob: Uint8Array<ArrayBuffer>): string[] {
  const view = new DataView(blob.buffer, blob.byteOffset, blob.byteLength);
  const strings: string[] = [];
  for (let at = 28; at < blob.length;) {
    const length = view.getUint32(at, true);
    strings.push(new TextDecoder().decode(blob.subarray(at + 4, at + 4 + length)));
    at += 4 + length;
  }
  return strings;
}

Deno.test("a start is encoded as the core's layout says", () => {
  const blob = new SpawnEncoder().encode(SPAWN);
  const view = new DataView(blob.buffer, blob.byteOffset, blob.byteLength);
  assert.equal(view.getUint32(0, true), 1 | 4 | 16 | 32);
  assert.equal(view.getUint32(4, true), 7);
  assert.equal(view.getFloat64(12, true), 0.5);
  assert.deepEqual([view.getUint32(20, true), view.getUint32(24, true)], [2, 2]);
  assert.deepEqual(stringsOf(blob), ["é", "", "__proto__=1", "A=x=y", "/tmp"]);
});

Deno.test("a start has its own environment, whatever the one before it had", () => {
  const encoder = new SpawnEncoder();
  const other = { ...SPAWN, environment: new Map([["B", "2"]]) };
  for (const spawn of [SPAWN, SPAWN, other, SPAWN]) {
    const variables = [...spawn.environment].map(([name, value]) => `${name}=${value}`);
    assert.deepEqual(stringsOf(encoder.encode(spawn)), ["é", "", ...variables, "/tmp"]);
  }
});

Deno.test("facts tell an exit code from a signal, and neither before the exit", () => {
  const view = new DataView(new ArrayBuffer(FACTS_BYTES));
  view.setInt32(4, 9, true);
  assert.deepEqual([decodeFacts(view).exitCode, decodeFacts(view).signal], [null, null]);
  view.setUint32(0, 1, true);
  assert.deepEqual([decodeFacts(view).exitCode, decodeFacts(view).signal], [9, null]);
  view.setUint32(0, 1 | 2 | 16, true);
  const facts = decodeFacts(view);
  assert.deepEqual([facts.exitCode, facts.signal, facts.published], [null, 9, true]);
});

Deno.test("offsets beyond 2^53 are exact", () => {
  const view = new DataView(new ArrayBuffer(FACTS_BYTES));
  view.setBigUint64(40, 2n ** 63n + 1n, true);
  assert.equal(decodeFacts(view).total, 2n ** 63n + 1n);
});
