import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { Buffer } from "node:buffer";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { fileUrl } from "../support/files_client.ts";
import { latin1, noise } from "../support/bytes.ts";
import { peakBytes } from "../support/proc.ts";
import { CHUNKED, header, type RawConnection, sized } from "../support/raw_http.ts";
import { Http2Client } from "../support/http2_client.ts";
import { Scratch } from "../support/scratch.ts";
import { Tmpfs } from "../support/tmpfs.ts";
import { withDaemon, withDaemonAsRoot } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
/** Sent before the client stops, and how much there is in all. */
const FIRST = 2 * MIB;
const ALL = 6 * MIB;

const CONTENT = noise(ALL);

/** Begins to upload `bytes` bytes: the head, and `first` of them. */
async function begin(
  daemon: Daemon,
  connection: RawConnection,
  path: string,
  headers: readonly (readonly [string, string])[] = [],
  first = FIRST,
): Promise<void> {
  await connection.send(daemon.request("PUT", fileUrl("file", path), [sized(ALL), ...headers]));
  await connection.send(CONTENT.subarray(0, first));
}

function same(path: string): void {
  strictEqual(Buffer.compare(Deno.readFileSync(path), CONTENT), 0);
  strictEqual(Deno.statSync(path).size, ALL);
}

withDaemon.test("a large body that comes in pieces is whole, and its connection ends", async ({ daemon, scratch }) => {
  for (const headers of [[], [["Expect", "100-continue"]]] as const) {
    using connection = await daemon.connect();
    const path = scratch.join(`file${headers.length}`);
    await begin(daemon, connection, path, headers);
    let at = FIRST;
    for (let piece = 1; at < ALL; piece = piece * 3 + 1) {
      await connection.send(CONTENT.subarray(at, at + piece));
      at += piece;
    }
    const answer = await connection.response("PUT");
    deepStrictEqual([answer.status, header(answer, "connection")], [204, "close"]);
    same(path);
  }
});

withDaemon.test("a chunked body is not collected in memory, whatever its connection carried before", async ({ daemon, scratch }) => {
  const target = fileUrl("file", scratch.join("file"));
  const start = JSON.stringify({ exec_id: "x".repeat(2000), command: ["true"] });
  const padded = start.padEnd(60_000);
  // A MiB in the pieces that many client libraries send.
  const chunks = latin1(`8000\r\n${"x".repeat(32 * 1024)}\r\n`.repeat(32));
  const most = peakBytes(daemon.pid);
  const before: [method: string, target: string, body: string | Uint8Array, kept: boolean][] = [
    ["PUT", target, CONTENT, false],
    ["POST", "/v1/exec/start", padded, false],
    ["POST", "/v1/exec/start", start, true],
  ];
  for (const [method, path, body, kept] of before) {
    using first = await daemon.connect(
      daemon.request(method, path, [["Content-Length", `${body.length}`]]),
    );
    await first.send(body);
    const said = header(await first.response(method), "connection");
    strictEqual(said, kept ? undefined : "close");
    using another = await daemon.connect();
    const connection = said === "close" ? another : first;
    const chunked = CHUNKED;
    await connection.send(daemon.request("PUT", target, [chunked]));
    for (let sent = 0; sent < 64; sent++) await connection.send(chunks);
    await connection.send("0\r\n\r\n");
    strictEqual((await connection.response("PUT")).status, 204);
    const more = (peakBytes(daemon.pid) - most) / MIB;
    ok(more < 32, `${more} MiB more behind ${body.length} bytes for ${path}`);
  }
});

withDaemon.test("a large body by HTTP/2 is whole", async ({ daemon, scratch }) => {
  using client = new Http2Client(daemon);
  for (const expect of [{}, { expect: "100-continue" }]) {
    const { head } = await client.ask({
      ":path": fileUrl("file", scratch.join("framed")),
      ":method": "PUT",
      authorization: `Bearer ${daemon.token}`,
      "content-length": String(ALL),
      ...expect,
    }, CONTENT);
    strictEqual(head[":status"], 204);
    same(scratch.join("framed"));
    Deno.removeSync(scratch.join("framed"));
  }
});

withDaemonAsRoot.test("clients that stop in mid-body hold up nobody, and leave nothing when they are gone", async ({ daemon, scratch }) => {
  const fds = daemon.fdCount();
  const stalled = await Promise.all(Array.from({ length: 40 }, () => daemon.connect()));
  for (const [at, connection] of stalled.entries()) {
    await begin(daemon, connection, scratch.join(`stalled${at}`));
  }
  await daemon.guest.writeFile(scratch.join("other"), CONTENT);
  same(scratch.join("other"));
  for (const [at, connection] of stalled.entries()) {
    // Some say that they have nothing more, the others are gone.
    if (at % 2 === 0) await connection.finish();
    else connection[Symbol.dispose]();
  }
  await eventually("nothing of them left", () => [...Deno.readDirSync(scratch.path)].length === 1);
  for (const connection of stalled) connection[Symbol.dispose]();
  await eventually("every descriptor closed", () => daemon.fdCount() <= fds + 3);
});

Deno.test("the daemon's end does not wait for a client that stopped in mid-body", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "0" } });
  const fds = daemon.fdCount();
  using connection = await daemon.connect();
  await begin(daemon, connection, scratch.join("file"));
  await eventually("the upload", () => daemon.fdCount() > fds + 1);
  strictEqual(await daemon.stop(), 0);
  strictEqual([...Deno.readDirSync(scratch.path)].length, 0);
});

asRoot.test("uploads that the daemon's end stops say so, and are no failures in the log", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "0" } });
  const fds = daemon.fdCount();
  const stopped = await Promise.all(Array.from({ length: 100 }, () => daemon.connect()));
  for (const [at, connection] of stopped.entries()) {
    await begin(daemon, connection, scratch.join(`file${at}`), [], 1024);
  }
  // Each has its connection and its file.
  await eventually("all uploads", () => daemon.fdCount() >= fds + 2 * stopped.length);
  strictEqual(await daemon.stop(), 0);
  for (const connection of stopped) {
    const { status, body } = await connection.response("PUT");
    strictEqual(new TextDecoder().decode(body), "Cannot go on: the daemon ends\n");
    strictEqual(status, 500);
    connection[Symbol.dispose]();
  }
  deepStrictEqual(daemon.log.lines.filter(({ level }) => level === "warn"), []);
});

Deno.test("a disk that fills in mid-body is answered while the client still sends", async () => {
  using disk = Tmpfs.mount(4 * MIB);
  if (disk === undefined) return console.log("skipped: no tmpfs can be mounted here");
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DISK_RESERVE_BYTES: "0" } });
  using connection = await daemon.connect();
  await begin(daemon, connection, disk.join("file"), [], 5 * MIB);
  const { status, body } = await connection.response("PUT");
  strictEqual(status, 500, new TextDecoder().decode(body));
  strictEqual([...Deno.readDirSync(disk.path)].length, 0);
});

withDaemon.test("a request sent behind a large body is not taken for a part of it", async ({ daemon, scratch }) => {
  using connection = await daemon.connect();
  const path = scratch.join("file");
  await begin(daemon, connection, path, [], ALL);
  await connection.send(latin1("GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"));
  strictEqual((await connection.response("PUT")).status, 204);
  same(path);
});
