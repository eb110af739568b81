import { deepStrictEqual, match, ok, rejects, strictEqual } from "node:assert/strict";
import { Buffer } from "node:buffer";
import { eventually } from "../support/await_event.ts";
import { noise } from "../support/bytes.ts";
import { Daemon } from "../support/daemon.ts";
import { fileUrl, getFile } from "../support/files_client.ts";
import { header, type RawConnection, type RawHead } from "../support/raw_http.ts";
import { Http2Client } from "../support/http2_client.ts";
import { Scratch } from "../support/scratch.ts";
import { listTar } from "../support/tar_list.ts";
import { withDaemon, withDaemonAsRoot, withNobody } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
/** More than all buffers between the disk and a client that does not read. */
const SIZE = 32 * MIB;
const CONTENT = noise(SIZE);

type Route = "file" | "tar";

/** A large file, and the same in a directory with another one behind it. */
function furnish(scratch: Scratch): Readonly<Record<Route, string>> {
  Deno.mkdirSync(scratch.join("tree"));
  Deno.writeFileSync(scratch.join("tree/a"), CONTENT);
  scratch.file("tree/b", "behind");
  return { file: scratch.join("tree/a"), tar: scratch.join("tree") };
}

/** A connection on which a download has begun: its head came. */
async function begun(
  daemon: Daemon,
  route: Route,
  path: string,
): Promise<readonly [RawConnection, RawHead]> {
  const connection = await daemon.connect(daemon.request("GET", fileUrl(route, path)));
  const head = await connection.head();
  strictEqual(head.status, 200);
  strictEqual(header(head, "content-length") === undefined, route === "tar");
  return [connection, head];
}

/** Reads a body to its end. Throws if that does not come. */
async function readOn(connection: RawConnection, head: RawHead): Promise<void> {
  const length = header(head, "content-length");
  if (length === undefined) {
    for await (const piece of connection.body(head)) ok(piece.length > 0);
    return;
  }
  let at = 0;
  while (at < Number(length)) {
    const piece = await connection.more();
    if (piece.length === 0) {
      throw new Error(`Cannot read on: ${Number(length) - at} bytes are missing`);
    }
    const sent = CONTENT.subarray(at, at + piece.length);
    if (at < SIZE) ok(Buffer.compare(sent, piece.subarray(0, sent.length)) === 0);
    at += piece.length;
  }
  strictEqual(at, Number(length));
}

withDaemon.test("a file that shrinks while it is sent ends the connection, one that grows is cut", async ({ daemon, scratch }) => {
  const { file } = furnish(scratch);
  const [grown, whole] = await begun(daemon, "file", file);
  Deno.writeFileSync(file, new Uint8Array(MIB), { append: true });
  strictEqual(header(whole, "content-length"), String(SIZE));
  await readOn(grown, whole);
  // It goes on on the same connection.
  strictEqual((await grown.ask("GET", "/v1/health")).status, 200);
  grown[Symbol.dispose]();
  Deno.truncateSync(file, SIZE);
  const [cut, head] = await begun(daemon, "file", file);
  Deno.truncateSync(file, SIZE - MIB);
  await rejects(readOn(cut, head));
  const line = await daemon.log.until("the cut", ({ msg }) => msg === "a download was cut");
  strictEqual(line["reason"], "Cannot send the rest: the file became shorter");
  cut[Symbol.dispose]();
});

withNobody.test("a tree that cannot be read on ends without its last chunk", async ({ daemon, scratch }) => {
  const { tar } = furnish(scratch);
  const [connection, head] = await begun(daemon, "tar", tar);
  strictEqual(header(head, "transfer-encoding"), "chunked");
  Deno.chmodSync(scratch.join("tree/b"), 0);
  await rejects(readOn(connection, head));
  const line = await daemon.log.until("the failure", ({ msg }) => msg === "a download failed");
  match(String(line["reason"]), /cannot read b: EACCES/);
  connection[Symbol.dispose]();
});

for (const route of ["file", "tar"] as const) {
  Deno.test(`a large ${route} is cut by the daemon's end, and does not end`, async () => {
    using scratch = new Scratch();
    await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "0" } });
    const path = furnish(scratch)[route];
    // So much that it is not sent before the daemon has heard of its end, though the client reads.
    Deno.truncateSync(scratch.join("tree/a"), 7 * 1024 * MIB);
    const [connection, head] = await begun(daemon, route, path);
    const stopped = daemon.stop();
    await rejects(readOn(connection, head));
    strictEqual(await stopped, 0);
    connection[Symbol.dispose]();
  });
}

withDaemonAsRoot.test("60 downloads whose clients do not read hold up nobody and are let go", async ({ daemon, scratch }) => {
  const paths = furnish(scratch);
  const [rss, fds] = [daemon.rss(), daemon.fdCount()];
  const connections: RawConnection[] = [];
  for (let at = 0; at < 60; at++) {
    const route = at % 2 === 0 ? "file" : "tar";
    connections.push((await begun(daemon, route, paths[route]))[0]);
  }
  const answer = await getFile(daemon, scratch.join("tree/b"));
  strictEqual(await answer.text(), "behind");
  const more = Math.round((daemon.rss() - rss) / MIB);
  ok(more < 150, `${more} MiB more`);
  for (const connection of connections) connection[Symbol.dispose]();
  await eventually("every descriptor closed", () => daemon.fdCount() <= fds + 3);
  await daemon.logWritten();
  deepStrictEqual(daemon.log.lines.filter(({ level }) => level === "warn"), []);
});

for (const route of ["file", "tar"] as const) {
  Deno.test(`a large ${route} by HTTP/2 is whole`, async () => {
    using scratch = new Scratch();
    await using daemon = await Daemon.bootstrapped();
    using client = new Http2Client(daemon);
    const { body } = await client.ask({
      ":path": fileUrl(route, furnish(scratch)[route]),
      authorization: `Bearer ${daemon.token}`,
    });
    const content = route === "file"
      ? body
      : listTar(body).find(({ name }) => name === "a")?.content;
    strictEqual(Buffer.compare(content ?? new Uint8Array(), CONTENT), 0);
  });
}
