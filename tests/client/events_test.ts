import { deepStrictEqual, strictEqual, throws } from "node:assert/strict";
import { ProtocolViolation } from "../../src/client/errors.ts";
import { decodeFrame, type ExecEvent, FrameParser } from "../../src/client/sse.ts";

const MAX = 2n ** 64n - 1n;
const WIRE = `event: output\ndata: {"offset":0,"stream":"stdout","output":"AP/+"}\n\n:\n\n` +
  `event: output\ndata: {"output":"QQ==","stream":"stderr","offset":${MAX - 1n}}\n\n` +
  `event: gap\ndata: {"from":9007199254740993,"to":${MAX}}\n\n` +
  `event: exit\ndata: {"exit_code":null,"signal":9,"truncated":false,"writers_may_be_alive":true,"offset":${MAX}}\n\n`;
const EVENTS: readonly ExecEvent[] = [
  { event: "output", offset: 0n, stream: "stdout", bytes: new Uint8Array([0, 255, 254]) },
  { event: "output", offset: MAX - 1n, stream: "stderr", bytes: new Uint8Array([65]) },
  { event: "gap", from: 9007199254740993n, to: MAX },
  {
    event: "exit",
    exit_code: null,
    signal: 9,
    truncated: false,
    writers_may_be_alive: true,
    offset: MAX,
  },
];

/** The events of bytes that come in such pieces. */
function eventsOf(...pieces: readonly Uint8Array[]): ExecEvent[] {
  const parser = new FrameParser();
  const frames = pieces.flatMap((piece) => [...parser.push(piece)]);
  strictEqual(parser.between, true);
  return frames.map(decodeFrame).filter((event) => event !== undefined);
}

Deno.test("events come whole, with all digits of their offsets, wherever their bytes are cut", () => {
  const bytes = new TextEncoder().encode(WIRE);
  for (let cut = 0; cut <= bytes.length; cut++) {
    deepStrictEqual(eventsOf(bytes.subarray(0, cut), bytes.subarray(cut)), EVENTS, `cut at ${cut}`);
  }
  deepStrictEqual(eventsOf(...Array.from(bytes, (byte) => new Uint8Array([byte]))), EVENTS);
});

Deno.test("what is no event of the protocol is told of", () => {
  const output = '{"offset":0,"stream":"stdout","output":"';
  for (
    const frame of [
      "id: 1\nevent: gap",
      "event: news\ndata: {}",
      "event: exit\ndata: {",
      `event: output\ndata: ${output}?"}`,
      'event: gap\ndata: {"from":"0","to":1}',
    ]
  ) throws(() => decodeFrame(frame), ProtocolViolation, frame);
  const parser = new FrameParser();
  const endless = new Uint8Array(17 * 1024 * 1024).fill(0x61);
  throws(() => [...parser.push(endless)], ProtocolViolation);
});
