import { deepStrictEqual, rejects, strictEqual, throws } from "node:assert/strict";
import {
  decodeExecEvent,
  parseExact,
  type SseItem,
  SseParser,
  SseStream,
  StreamRest,
} from "./sse.ts";

const WIRE = ":\n\n" +
  'event: output\ndata: {"offset":9007199254740993,"stream":"stdout","output":"aGk="}\n\n' +
  ": keepalive\n\nevent:gap\ndata:a\ndata:b\n\ndata: plain\n\n";

const ITEMS: SseItem[] = [
  { kind: "comment", text: "" },
  {
    kind: "event",
    event: "output",
    data: '{"offset":9007199254740993,"stream":"stdout","output":"aGk="}',
  },
  { kind: "comment", text: " keepalive" },
  { kind: "event", event: "gap", data: "a\nb" },
  { kind: "event", event: "message", data: "plain" },
];

const bytes = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);
const streamOf = (text: string): SseStream => new SseStream(new Blob([bytes(text)]).stream());
const exit = (offset: number): string =>
  "event: exit\ndata: " + JSON.stringify({
    exit_code: 0,
    signal: null,
    truncated: false,
    writers_may_be_alive: false,
    offset,
  }) + "\n\n";
const output = (offset: number, text: string, stream = "stdout"): string =>
  `event: output\ndata: ${JSON.stringify({ offset, stream, output: bytes(text).toBase64() })}\n\n`;
const gap = (from: number, to: number): string =>
  `event: gap\ndata: ${JSON.stringify({ from, to })}\n\n`;

Deno.test("SSE items are the same however the bytes are cut", () => {
  for (const newline of ["\n", "\r\n"]) {
    const wire = bytes(WIRE.replaceAll("\n", newline));
    for (let size = 1; size <= wire.length; size++) {
      const parser = new SseParser();
      const items: SseItem[] = [];
      for (let at = 0; at < wire.length; at += size) {
        items.push(...parser.push(wire.subarray(at, at + size)));
      }
      deepStrictEqual(items, ITEMS);
      strictEqual(parser.between, true);
    }
  }
});

Deno.test("an offset above 2^53 is exact", () => {
  const [, item] = ITEMS;
  if (item?.kind !== "event") throw new Error("no event");
  const event = decodeExecEvent(item);
  strictEqual(event.event === "output" && event.offset, 9007199254740993n);
  deepStrictEqual(parseExact('{"from":18446744073709551615,"exit_code":3}'), {
    from: 18446744073709551615n,
    exit_code: 3,
  });
});

Deno.test("an event that the protocol does not know is an error", () => {
  throws(() => decodeExecEvent({ kind: "event", event: "progress", data: "{}" }), /progress/);
});

Deno.test("a body that ends inside an item is an error, after an item it is the end", async () => {
  await using whole = streamOf(output(0, "a"));
  strictEqual((await whole.next())?.event, "output");
  strictEqual(await whole.next(), undefined);
  for (const cut of [1, 2, 10]) {
    await using broken = streamOf(output(0, "a").slice(0, -cut));
    await rejects(broken.rest(), /inside an item/);
  }
});

Deno.test("text is found across chunks, and its absence is an error", async () => {
  await using stream = streamOf(
    output(0, "rea") + output(3, "x", "stderr") + output(4, "dy") + exit(6),
  );
  strictEqual(await stream.untilOutput("ready", "stdout"), "ready");
  await rejects(stream.untilOutput("more"), /ended/);
});

Deno.test("the rest of a stream knows its bytes, gaps and exit", async () => {
  await using stream = streamOf(
    gap(0, 4) + output(4, "out") + output(7, "err", "stderr") + exit(10),
  );
  const rest = await stream.rest();
  strictEqual(rest.text(), "outerr");
  strictEqual(rest.text("stderr"), "err");
  deepStrictEqual(rest.gaps, [{ event: "gap", from: 0n, to: 4n }]);
  strictEqual(rest.exit.offset, 10n);
  strictEqual(rest.contiguous(), 10n);
});

Deno.test("holes, overlaps and a wrong total are seen", async () => {
  for (
    const wire of [
      output(1, "a"),
      output(0, "ab") + output(1, "b"),
      output(0, "a") + gap(2, 3),
      output(0, "a") + exit(2),
    ]
  ) {
    await using stream = streamOf(wire);
    const rest = await stream.rest();
    throws(() => rest.contiguous(), /Cannot join/);
  }
});

Deno.test("a missing, a second and an early exit are seen", async () => {
  for (const wire of ["", exit(0) + exit(0), exit(0) + output(0, "a")]) {
    await using stream = streamOf(wire);
    const rest = await stream.rest();
    throws(() => rest.exit, /Cannot find the exit/);
  }
  strictEqual(new StreamRest([]).contiguous(7n), 7n);
});

Deno.test("disposing of a stream cancels its body", async () => {
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(bytes(output(0, "a"))),
    cancel: () => {
      cancelled = true;
    },
  });
  {
    await using stream = new SseStream(body);
    await stream.next();
  }
  strictEqual(cancelled, true);
});
