import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert/strict";
import http2 from "node:http2";
import { asRoot } from "../support/as_root.ts";
import { eventually, within } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { fileUrl } from "../support/files_client.ts";
import { threadNames } from "../support/proc.ts";
import { header, headerValues, type RawConnection, request } from "../support/raw_http.ts";
import { Scratch } from "../support/scratch.ts";
import { listTar } from "../support/tar_list.ts";

const MIB = 1024 * 1024;
/** More than the buffers of a connection whose caller does not read. */
const CONTENT = Uint8Array.from({ length: 16 * MIB }, (_, at) => (at * 31 + (at >> 11)) & 255);

type Route = "file" | "tar";

/** A file, and the same alone in a directory. */
function furnish(scratch: Scratch): Readonly<Record<Route, string>> {
  const tar = scratch.join("tree");
  Deno.mkdirSync(tar);
  const file = scratch.join("tree/file");
  Deno.writeFileSync(file, CONTENT);
  return { file, tar };
}

function get(daemon: Daemon, route: Route, path: string): Uint8Array {
  return request("GET", fileUrl(route, path), [["Authorization", `Bearer ${daemon.token}`]]);
}

function same(route: Route, body: Uint8Array): void {
  const content = route === "file" ? body : listTar(body).at(-1)?.content;
  strictEqual(content?.length, CONTENT.length);
  ok(content.every((byte, at) => byte === CONTENT[at]));
}

async function waited(daemon: Daemon): Promise<void> {
  await eventually("the core to wait for the caller", () => handedOver(daemon));
}

/** Whether the core waits for a caller by itself: Deno's server then sends nothing. */
function handedOver(daemon: Daemon): boolean {
  return threadNames(daemon.pid).includes("guestd-peers");
}

/** Asks for a download whose caller does not read yet. */
async function stalled(daemon: Daemon, route: Route, path: string): Promise<RawConnection> {
  const connection = await daemon.connect();
  await connection.send(get(daemon, route, path));
  await waited(daemon);
  return connection;
}

for (const route of ["file", "tar"] as const) {
  Deno.test(`a connection's first request for a large ${route} is answered by the core alone`, async () => {
    using scratch = new Scratch();
    await using daemon = await Daemon.bootstrapped();
    using connection = await stalled(daemon, route, furnish(scratch)[route]);
    const answer = await connection.response();
    strictEqual(answer.status, 200);
    const { version_header: name, daemon_version: version } = daemon.document;
    deepStrictEqual(headerValues(answer, name), [version]);
    strictEqual(header(answer, "connection"), "close");
    strictEqual(
      header(answer, "content-type"),
      route === "file" ? "application/octet-stream" : "application/x-tar",
    );
    strictEqual(
      header(answer, "content-length"),
      route === "file" ? String(CONTENT.length) : undefined,
    );
    ok(Math.abs(Date.parse(header(answer, "date") ?? "") - Date.now()) < 60_000);
    same(route, answer.body);
    await connection.closedByPeer();
    const failures = ["warn", "error"];
    deepStrictEqual(daemon.log.lines.filter(({ level }) => failures.includes(level)), []);
  });

  Deno.test(`a later request for a large ${route}, and one by HTTP/2, is answered by the server`, async () => {
    using scratch = new Scratch();
    await using daemon = await Daemon.bootstrapped();
    const path = furnish(scratch)[route];
    using connection = await daemon.connect();
    strictEqual((await connection.ask("GET", "/v1/health")).status, 200);
    await connection.send(get(daemon, route, path));
    same(route, (await connection.response()).body);
    strictEqual((await connection.ask("GET", "/v1/health")).status, 200);
    const session = http2.connect(daemon.url);
    const stream = session.request({
      ":path": fileUrl(route, path),
      authorization: `Bearer ${daemon.token}`,
    });
    const ended = Promise.withResolvers<Uint8Array>();
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    stream.on("data", (piece: Uint8Array<ArrayBuffer>) => pieces.push(piece));
    stream.on("end", () => new Blob(pieces).bytes().then(ended.resolve));
    stream.on("error", ended.reject);
    same(route, await within("the end", ended.promise));
    session.destroy();
    strictEqual(handedOver(daemon), false);
  });

  Deno.test(`a large ${route} whose daemon is killed, or told to end, is reset and does not end`, async (t) => {
    using scratch = new Scratch();
    const path = furnish(scratch)[route];
    for (const signal of ["SIGKILL", "SIGTERM"] as const) {
      await t.step(signal, async () => {
        await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "0" } });
        using connection = await stalled(daemon, route, path);
        daemon.signal(signal);
        await daemon.exited;
        await rejects(connection.response());
      });
    }
  });
}

Deno.test("requests behind one for a large file are not answered, and harm nothing", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const { file } = furnish(scratch);
  using connection = await daemon.connect();
  const both = new Blob([get(daemon, "file", file), get(daemon, "file", file)] as BlobPart[]);
  await connection.send(await both.bytes());
  same("file", (await connection.response()).body);
  await connection.closedByPeer();
});

Deno.test("a file that grows while it is sent is cut to what it was", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const { file } = furnish(scratch);
  using connection = await stalled(daemon, "file", file);
  Deno.writeFileSync(file, new Uint8Array(MIB), { append: true });
  same("file", (await connection.response()).body);
});

Deno.test("a file that becomes shorter while it is sent is what it was as far as it was read, and then reset", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const { file } = furnish(scratch);
  using connection = await stalled(daemon, "file", file);
  await connection.head();
  // Less than waits in the socket by now.
  Deno.truncateSync(file, MIB / 2);
  let at = 0;
  for (let piece; (piece = await connection.more()).length > 0;) {
    ok(piece.every((byte) => byte === CONTENT[at++]));
  }
  ok(at > MIB / 2 && at < CONTENT.length, `${at} bytes`);
  const line = await daemon.log.until("the cut", ({ msg }) => msg === "a download was cut");
  strictEqual(line["reason"], "Cannot send the rest: the file became shorter");
});

asRoot.test("callers that stop reading hold no thread, and leave nothing when they are gone", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  const paths = furnish(scratch);
  const routes = ["file", "tar"] as const;
  const [fds, threads] = [daemon.fdCount(), daemon.threadCount()];
  const connections: RawConnection[] = [];
  for (let at = 0; at < 60; at++) {
    const route = routes[at % 2] ?? "file";
    connections.push(await stalled(daemon, route, paths[route]));
  }
  // Each has its connection twice and its file.
  await eventually("all handed over", () => daemon.fdCount() >= fds + 3 * connections.length);
  using other = await daemon.connect();
  await other.send(get(daemon, "tar", paths.tar));
  same("tar", (await other.response()).body);
  ok(daemon.threadCount() < threads + 40);
  for (const [at, connection] of connections.entries()) {
    // Some say that they have nothing more to send, which Deno's server takes for their leaving; the others are gone.
    if (at % 3 === 0) await connection.finish();
    else connection[Symbol.dispose]();
  }
  await eventually("every descriptor closed", () => daemon.fdCount() <= fds + 3);
  for (const connection of connections) connection[Symbol.dispose]();
  deepStrictEqual(daemon.log.lines.filter(({ level }) => level === "warn"), []);
});
