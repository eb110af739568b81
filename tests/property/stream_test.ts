import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import fc from "fast-check";
import type { ExecEvent } from "../../src/client/sse.ts";
import { Daemon } from "../support/daemon.ts";
import { runs } from "../support/property.ts";
import type { StreamRest } from "../support/sse.ts";
import { withDaemon } from "../support/with_daemon.ts";

const WINDOW = 4096;

/** Some bytes of one letter on one of the streams. */
interface Chunk {
  readonly to: "stdout" | "stderr";
  readonly size: number;
}

/** A reader: where it begins, when it comes, whether it takes something before it stalls until the command is over. */
interface Reader {
  readonly offset: number;
  readonly behind: number;
  readonly takes: boolean;
}

const chunk: fc.Arbitrary<Chunk> = fc.record({
  to: fc.constantFrom("stdout", "stderr"),
  size: fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 9000 })),
});
const chunks = fc.array(chunk, { minLength: 1, maxLength: 12, size: "max" });
const reader: fc.Arbitrary<Reader> = fc.record({
  offset: fc.oneof(fc.constant(0), fc.nat({ max: 40_000 })),
  behind: fc.nat({ max: 12 }),
  takes: fc.boolean(),
});

const letter = (index: number): string => String.fromCharCode(0x61 + index);

/** Writes each chunk when it gets a line, and ends when it gets none. */
function scriptOf(chunks: readonly Chunk[]): string {
  return chunks.map(({ to, size }, index) =>
    `read -r go; head -c ${size} /dev/zero | tr '\\0' ${letter(index)}${
      to === "stderr" ? " >&2" : ""
    }`
  ).join("; ");
}

/** What is known of each byte: its stream and its letter. Readers that differ in one throw. */
class Bytes {
  readonly #seen = new Map<number, string>();

  note(offset: number, stream: string, bytes: Uint8Array): void {
    for (const [index, byte] of bytes.entries()) {
      const said = `${stream} ${byte}`;
      strictEqual(this.#seen.get(offset + index) ?? said, said, `byte ${offset + index}`);
      this.#seen.set(offset + index, said);
    }
  }
}

/**
 * Follows a reader's events from the offset that it asked for: nothing is told twice, nothing is passed over but by a
 * gap, and a gap names bytes only that no window of `WINDOW` bytes before `total` could still hold.
 */
function checkEvents(
  events: readonly ExecEvent[],
  asked: number,
  total: number,
  bytes: Bytes,
): void {
  let at = asked;
  for (const [index, event] of events.entries()) {
    if (event.event === "exit") {
      strictEqual(Number(event.offset), total);
      ok(at >= total, `the end came at ${at} of ${total}`);
    } else if (event.event === "gap") {
      strictEqual(Number(event.from), at);
      ok(event.to > event.from);
      // What was there when a reader came is kept for it: so little output is no reason to take it away.
      strictEqual(index, 0);
      ok(Number(event.to) <= total - WINDOW, `a gap up to ${event.to} of ${total}`);
      at = Number(event.to);
    } else {
      strictEqual(Number(event.offset), at);
      ok(event.bytes.length > 0);
      bytes.note(at, event.stream, event.bytes);
      at += event.bytes.length;
    }
  }
}

Deno.test("readers that come, stall and leave at any time see one stream, and gaps only for what is gone", async () => {
  const env = { GUESTD_STREAM_REPLAY_BYTES: String(WINDOW) };
  await using daemon = await Daemon.bootstrapped({ env });
  await fc.assert(
    fc.asyncProperty(
      chunks,
      fc.array(reader, { maxLength: 5, size: "max" }),
      async (chunks, readers) => {
        const id = await daemon.exec(scriptOf(chunks), { stdin: "piped" });
        const total = chunks.reduce((sum, { size }) => sum + size, 0);
        const whole = (await daemon.stream(id)).rest();
        whole.catch(() => {});
        const reads: { readonly asked: number; readonly rest: Promise<ExecEvent[]> }[] = [];
        try {
          let written = 0;
          for (const [index, { size, to }] of chunks.entries()) {
            for (const { offset, takes } of readers.filter(({ behind }) => behind === index)) {
              const stream = await daemon.stream(id, offset);
              // It takes one event, if there is one, and the rest when all is over.
              const first = takes && offset < written ? [await stream.next()] : [];
              const rest = whole.then(async () => [
                ...first.filter((event) => event !== undefined),
                ...(await stream.rest()).events,
              ]);
              rest.catch(() => {});
              reads.push({ asked: offset, rest });
            }
            await daemon.stdin(id, "\n");
            // The next one is not written before this one is seen: so their order is known.
            await using seen = await daemon.stream(id, written + size - 1);
            await seen.untilOutput(letter(index), to);
            written += size;
          }
          const all: StreamRest = await whole;
          const bytes = new Bytes();
          checkEvents(all.events, 0, total, bytes);
          deepStrictEqual(all.gaps, []);
          for (const stream of ["stdout", "stderr"] as const) {
            const said = chunks.map(({ to, size }, index) =>
              to === stream ? letter(index).repeat(size) : ""
            ).join("");
            strictEqual(all.text(stream), said);
          }
          for (const { asked, rest } of reads) checkEvents(await rest, asked, total, bytes);
          // One that comes when all is over gets the window, and never more than is there.
          await using late = await daemon.stream(id);
          checkEvents((await late.rest()).events, 0, total, bytes);
        } finally {
          await daemon.guest.kill(id);
        }
      },
    ),
    runs(15),
  );
});

/** Texts and bytes that are none, with edges where the daemon cuts: it decodes 1 KiB first, then by 16 KiB. */
const bytesArbitrary = fc.tuple(
  fc.constantFrom(0, 1020, 1021, 1022, 1023, 1024, 17_404, 17_405, 17_406, 17_407, 17_408),
  fc.array(
    fc.oneof(
      fc.string({ unit: "grapheme", maxLength: 6 }).map((text) => new TextEncoder().encode(text)),
      fc.uint8Array({ maxLength: 6 }),
      fc.constantFrom(
        [0xf0, 0x9f, 0x94, 0x91],
        [0xf0, 0x9f, 0x94],
        [0xed, 0xa0, 0x80],
        [0xef, 0xbb, 0xbf],
        [0xc0, 0x80],
        [0],
        [0x22, 0x5c, 0x0a],
      ).map((bytes) => Uint8Array.from(bytes)),
    ),
    { maxLength: 8 },
  ),
).map(([ahead, parts]) => {
  const lead = new Uint8Array(ahead).fill(0x61);
  return Uint8Array.from([...lead, ...parts.flatMap((part) => [...part])]);
});

withDaemon.test("any bytes come through stdin and the stream as they are, and through a poll as UTF-8 mended", async ({ daemon }) => {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  await fc.assert(
    fc.asyncProperty(
      bytesArbitrary,
      fc.array(fc.nat({ max: 18_000 }), { maxLength: 4 }),
      async (bytes, cuts) => {
        const id = await daemon.exec(["cat"], { stdin: "piped" });
        const following = daemon.follow(id);
        following.catch(() => {});
        let at = 0;
        for (const cut of [...cuts, bytes.length].sort((a, b) => a - b)) {
          const end = Math.min(cut, bytes.length);
          await daemon.stdin(id, bytes.slice(at, end));
          at = end;
        }
        await daemon.stdin(id, "", true);
        deepStrictEqual((await following).bytes("stdout"), bytes);
        strictEqual((await daemon.guest.poll(id)).stdout, decoder.decode(bytes));
        strictEqual((await daemon.guest.ack(id)).stdout, decoder.decode(bytes));
      },
    ),
    runs(30),
  );
});
