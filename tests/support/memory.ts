/** What a process has in its memory, read from /proc: for tests that nothing secret stays there. Only root may look. */

/** Read at a time, in bytes. */
const PIECE_BYTES = 4 << 20;

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
  const names = Object.keys(needles) as Name[];
  const found = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<
    Name,
    string[]
  >;
  // By their first two bytes, so that one pass looks for all of them.
  const beginnings = new Map<number, Name[]>();
  for (const name of names) {
    const [first = 0, second = 0] = needles[name];
    const key = first << 8 | second;
    beginnings.set(key, [...beginnings.get(key) ?? [], name]);
  }
  const begins = new Uint8Array(65536);
  for (const key of beginnings.keys()) begins[key] = 1;
  const longest = Math.max(...names.map((name) => needles[name].length));
  const piece = new Uint8Array(PIECE_BYTES + longest);
  using memory = Deno.openSync(`/proc/${pid}/mem`);
  for (const [from, to, region] of writable(pid)) {
    for (let at = from; at < to; at += PIECE_BYTES) {
      const count = readAt(memory, at, piece.subarray(0, Math.min(piece.length, to - at)));
      // What begins in the overlap is found at the beginning of the next piece.
      const end = Math.min(count - 1, PIECE_BYTES);
      for (let hit = 0; hit < end; hit++) {
        const key = (piece[hit] ?? 0) << 8 | (piece[hit + 1] ?? 0);
        if (begins[key] === 0) continue;
        for (const name of beginnings.get(key) ?? []) {
          const needle = needles[name];
          if (hit + needle.length <= count && needle.every((byte, i) => piece[hit + i] === byte)) {
            found[name].push(`${region || "anonymous"}+${(at + hit - from).toString(16)}`);
          }
        }
      }
    }
  }
  return found;
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
