import { deepStrictEqual, strictEqual, throws } from "node:assert/strict";
import { exitFrame, gapFrame, outputFrameBound, writeOutputFrame } from "../../src/http/sse.ts";

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

Deno.test("an output frame has event and data with offset, stream and base64", () => {
  const target = new Uint8Array(200);
  const chunk = new Uint8Array([0, 255, 254]);
  const first = writeOutputFrame(target, 0, 5, "stdout", chunk);
  const second = writeOutputFrame(target, first, 2n ** 64n - 1n, "stderr", new Uint8Array([65]));
  strictEqual(
    decode(target.subarray(0, first + second)),
    'event: output\ndata: {"offset":5,"stream":"stdout","output":"AP/+"}\n\n' +
      'event: output\ndata: {"offset":18446744073709551615,"stream":"stderr","output":"QQ=="}\n\n',
  );
});

Deno.test("the bound holds for every length, and nothing is written beyond the frame", () => {
  for (let length = 0; length < 200; length++) {
    const bound = outputFrameBound(length);
    const target = new Uint8Array(bound + 8).fill(7);
    const chunk = crypto.getRandomValues(new Uint8Array(length));
    const written = writeOutputFrame(target.subarray(0, bound), 0, 2n ** 64n - 1n, "stdout", chunk);
    strictEqual(written <= bound, true);
    const [, data = ""] = decode(target.subarray(0, written)).split("\ndata: ");
    deepStrictEqual(Uint8Array.fromBase64(JSON.parse(data).output), chunk);
    strictEqual(target.subarray(written).every((byte) => byte === 7), true);
  }
});

Deno.test("a frame without room is refused before anything is written", () => {
  const target = new Uint8Array(outputFrameBound(3) - 1).fill(7);
  throws(() => writeOutputFrame(target, 0, 0, "stdout", new Uint8Array(3)), RangeError);
  strictEqual(target.every((byte) => byte === 7), true);
});

Deno.test("gap and exit frames have all their fields, exactly", () => {
  strictEqual(
    decode(gapFrame({ from: 0, to: 9007199254740993n })),
    'event: gap\ndata: {"from":0,"to":9007199254740993}\n\n',
  );
  strictEqual(
    decode(exitFrame({
      exit_code: null,
      signal: 9,
      truncated: false,
      writers_may_be_alive: true,
      offset: 2n ** 64n - 1n,
    })),
    'event: exit\ndata: {"exit_code":null,"signal":9,"truncated":false,' +
      '"writers_may_be_alive":true,"offset":18446744073709551615}\n\n',
  );
});
