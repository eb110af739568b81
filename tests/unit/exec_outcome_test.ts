import assert from "node:assert/strict";
import fc from "fast-check";
import type { OutcomeHead } from "../../src/contract/exec.ts";
import { type CapturedOutput, outcomePieces } from "../../src/exec/outcome.ts";

const HEAD: OutcomeHead = {
  exec_id: 'a "quoted" id',
  phase: "exited",
  exit_code: 3,
  signal: null,
  truncated: false,
  writers_may_be_alive: true,
};

/** Captured output that gives at most `most` bytes at a time, wherever that cuts a character. */
function captured(stdout: Uint8Array, stderr: Uint8Array, most: number): CapturedOutput {
  return {
    output(stream, offset, out): number {
      const rest = (stream === 0 ? stdout : stderr).subarray(offset, offset + most);
      out.set(rest);
      return rest.length;
    },
  };
}

const decode = (bytes: Uint8Array): string =>
  new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);

Deno.test("an outcome cut anywhere is the JSON of the whole, bad sequences and all", () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc.string({ unit: "grapheme", maxLength: 20 }).map((text) => new TextEncoder().encode(text)),
  );
  fc.assert(fc.property(bytes, bytes, fc.integer({ min: 1, max: 9 }), (stdout, stderr, most) => {
    const whole = [...outcomePieces(HEAD, captured(stdout, stderr, most))].join("");
    assert.deepEqual(JSON.parse(whole), {
      ...HEAD,
      stdout: decode(stdout),
      stderr: decode(stderr),
    });
  }));
});

Deno.test("the fields stand in the order of the protocol", () => {
  const empty = new Uint8Array();
  const whole = [...outcomePieces(HEAD, captured(empty, empty, 64))].join("");
  assert.deepEqual(Object.keys(JSON.parse(whole)), [
    "exec_id",
    "phase",
    "exit_code",
    "signal",
    "stdout",
    "stderr",
    "truncated",
    "writers_may_be_alive",
  ]);
});
