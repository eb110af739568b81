/** What a process has in its memory, read from /proc: for tests that nothing secret stays there. Only root may look. */

import { Buffer } from "node:buffer";

/** Read at a time, in bytes. */
const PIECE_BYTES = 1 << 20;

/** Where the process may write: from, to, and what the kernel calls it. */
function* writable(pid: number): Generator<readonly [number, number, string]> {
  for (const line of Deno.readTextFileSync(`/proc/${pid}/maps`).split("\n")) {
    const found = /^([0-9a-f]+)-([0-9a-f]+) (rw..) \S+ \S+ \S+ *(.*)$/.exec(line);
    const [, from = "", to = "", , name = ""] = found ?? [];
    if (found !== null) yield [parseInt(from, 16), parseInt(to, 16), name];
  }
}

/**
 * Where each needle lies in the memory that the process can write, as `name+offset` of its mapping. Needles are at
 * least 16 bytes long, so that none is there by chance.
 */
export function findInMemory<Name extends string>(
  pid: number,
  needles: Readonly<Record<Name, Uint8Array>>,
): Record<Name, string[]> {
  // As text of one character a byte, in which V8 searches many times faster than a loop over bytes.
  const wanted = Object.entries<Uint8Array>(needles).map(([name, needle]) => ({
    name,
    text: Buffer.from(needle).toString("latin1"),
    places: [] as string[],
  }));
  const longest = Math.max(...wanted.map(({ text }) => text.length));
  const piece = Buffer.alloc(PIECE_BYTES + longest);
  const zeros = piece.toString("latin1");
  using memory = Deno.openSync(`/proc/${pid}/mem`);
  for (const [from, to, region] of writable(pid)) {
    for (let at = from; at < to; at += PIECE_BYTES) {
      const count = readAt(memory, at, piece.subarray(0, Math.min(piece.length, to - at)));
      const seen = piece.toString("latin1", 0, count);
      // Most of it was never written.
      if (seen === zeros.slice(0, count)) continue;
      for (const { text, places } of wanted) {
        // What begins in the overlap is found at the beginning of the next piece.
        for (let hit = -1; (hit = seen.indexOf(text, hit + 1)) >= 0 && hit < PIECE_BYTES;) {
          places.push(`${region || "anonymous"}+${(at + hit - from).toString(16)}`);
        }
      }
    }
  }
  return Object.fromEntries(wanted.map(({ name, places }) => [name, places])) as Record<
    Name,
    string[]
  >;
}

function readAt(memory: Deno.FsFile, at: number, into: Uint8Array): number {
  let filled = 0;
  try {
    memory.seekSync(at, Deno.SeekMode.Start);
    while (filled < into.length) {
      const count = memory.readSync(into.subarray(filled));
      if (count === null || count === 0) break;
      filled += count;
    }
  } catch {
    // Unmapped since the list was made, or memory of a device.
  }
  return filled;
}
