import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { flood } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { Footprint } from "../support/footprint.ts";
import { type RawConnection } from "../support/raw_http.ts";
import { SseStream } from "../support/sse.ts";
import { withDaemon } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
/** Twice what is kept for a reader that takes nothing, and more. */
const SIZE = 32 * MIB;

/** How long a command takes from start to end when nobody looks, in milliseconds. */
async function unwatchedMs(daemon: Daemon): Promise<number> {
  const before = performance.now();
  const id = await daemon.exec(flood(SIZE));
  await ended(daemon, id);
  return performance.now() - before;
}

/** Waits for the end without looking at the output. */
async function ended(daemon: Daemon, id: string): Promise<void> {
  await eventually("its end", async () => (await daemon.group(id)).child_exited);
}

/** Asks for the stream on a bare connection and reads nothing but the head. */
async function attachStuck(daemon: Daemon, id: string, offset = 0): Promise<RawConnection> {
  const connection = await daemon.connect(
    daemon.request("GET", `${execPath(id, "stream")}?offset=${offset}`),
  );
  strictEqual((await connection.head()).status, 200);
  return connection;
}

withDaemon.together("a subscriber that takes nothing from the start", {
  async "holds the command up for eight seconds at most"({ daemon }): Promise<void> {
    const free = await unwatchedMs(daemon);
    const id = await daemon.exec(`head -c1 >/dev/null; ${flood(SIZE)}`, { stdin: "piped" });
    using _stuck = await attachStuck(daemon, id);
    const before = performance.now();
    await daemon.stdin(id, "x", true);
    await ended(daemon, id);
    const took = performance.now() - before;
    ok(took < free + 8000, `${took} ms with a stuck reader, ${free} ms without one`);
  },
  async "is told of the gap, once, and gets the rest and the exit"({ daemon }): Promise<void> {
    const id = await daemon.exec(`head -c1 >/dev/null; ${flood(SIZE)}`, { stdin: "piped" });
    using connection = await daemon.connect(daemon.request("GET", execPath(id, "stream")));
    const head = await connection.head();
    await daemon.stdin(id, "x", true);
    await ended(daemon, id);
    const body = ReadableStream.from(connection.body(head));
    await using stream = new SseStream(body);
    const rest = await stream.rest();
    strictEqual(rest.contiguous(), BigInt(SIZE));
    strictEqual(rest.exit.offset, BigInt(SIZE));
    deepStrictEqual(rest.gaps.length, 1);
  },
  async "takes nothing from one that reads"({ daemon }): Promise<void> {
    const id = await daemon.exec(`head -c1 >/dev/null; ${flood(16 * MIB)}`, { stdin: "piped" });
    using _stuck = await attachStuck(daemon, id);
    const rest = await daemon.follow(id, () => daemon.stdin(id, "x", true));
    strictEqual(rest.contiguous(), BigInt(16 * MIB));
    deepStrictEqual(rest.gaps, []);
  },
  async "comes back again and again, and holds the command up no longer"(
    { daemon },
  ): Promise<void> {
    const free = await unwatchedMs(daemon);
    const id = await daemon.exec(`head -c1 >/dev/null; ${flood(SIZE)}`, { stdin: "piped" });
    await daemon.stdin(id, "x", true);
    const before = performance.now();
    let over = false;
    const end = ended(daemon, id).then(() => over = true);
    let attached = 0;
    while (!over) {
      using _stuck = await attachStuck(daemon, id);
      attached++;
    }
    await end;
    const took = performance.now() - before;
    ok(took < 2 * free + 8000, `${took} ms with ${attached} attachments, ${free} ms without`);
  },
  async "does not keep a timeout from ending the writer"({ daemon }): Promise<void> {
    const id = await daemon.exec("exec yes", { timeout: 300 });
    using _stuck = await attachStuck(daemon, id);
    await ended(daemon, id);
    strictEqual((await daemon.guest.poll(id)).signal, 15);
  },
});

asRoot.test("the windows of many subscribers are bounded together and given back once they are gone, and the commands go on", async () => {
  const size = 24 * MIB;
  // Nothing but the windows is to count.
  const env = { GUESTD_MAX_OUTPUT_BYTES: "16", GUESTD_STREAM_REPLAY_BYTES: "16" };
  await using daemon = await Daemon.bootstrapped({ env });
  const script = `head -c1 >/dev/null; ${flood(size)}; exec cat`;
  const count = 16;
  const ids = await Promise.all(
    Array.from({ length: count }, () => daemon.exec(script, { stdin: "piped" })),
  );
  const before = await Footprint.of(daemon);
  const stopped = await Promise.all(ids.map(async (id) => {
    const connection = await daemon.connect();
    await connection.send(daemon.request("GET", execPath(id, "stream")));
    const head = await connection.head();
    await daemon.stdin(id, "x");
    let left = 16 * MIB;
    for await (const piece of connection.body(head)) if ((left -= piece.length) < 0) break;
    return connection;
  }));
  const grown = (): number => (daemon.rss() - before.bytes) / MIB;
  // Ten each would be 160; beyond 64 in all nothing that was taken is kept. What else there was may be given back by now.
  ok(grown() > 48 && grown() < 140, `${grown()} MiB`);
  for (const connection of stopped) connection[Symbol.dispose]();
  for (const id of ids) {
    await using last = await daemon.stream(id, size - 1);
    await last.next();
  }
  await eventually("their windows to be given back", () => grown() < 48);
  strictEqual((await daemon.guest.health()).busy, true);
});
