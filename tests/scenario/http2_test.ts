import { strictEqual } from "node:assert/strict";
import http2 from "node:http2";
import { within } from "../support/await_event.ts";
import { HOOK_PREFIX } from "../support/daemon.ts";
import { withDaemon } from "../support/with_daemon.ts";

/** Status and version of one answer on an HTTP/2 connection that was opened by prior knowledge. */
async function ask(
  session: http2.ClientHttp2Session,
  headers: Readonly<Record<string, string>>,
): Promise<readonly [status: unknown, version: unknown]> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly [unknown, unknown]>();
  const stream = session.request(headers);
  stream.on("response", (head) => resolve([head[":status"], head["service-version"]]));
  stream.on("error", reject);
  stream.resume();
  stream.end();
  return await within(`an answer to ${headers[":path"]}`, promise);
}

withDaemon.test("HTTP/2 without TLS gets the same answers, and does not hold the end up", async ({ daemon }) => {
  const version = daemon.document.daemon_version;
  const session = http2.connect(daemon.url);
  const closed = Promise.withResolvers<void>();
  session.on("close", () => closed.resolve());
  const authorization = `Bearer ${daemon.token}`;
  const cases: readonly (readonly [Record<string, string>, number])[] = [
    [{ ":path": "/v1/health" }, 200],
    [{ ":path": "/nowhere" }, 404],
    [{ ":path": "/v1/health", ":method": "POST" }, 405],
    [{ ":path": "/v1/procs" }, 401],
    [{ ":path": "/v1/procs", authorization }, 200],
    [{ ":path": `${HOOK_PREFIX}/ready`, ":method": "POST" }, 200],
  ];
  for (const [headers, status] of cases) {
    const [got, seen] = await ask(session, headers);
    strictEqual(got, status, headers[":path"]);
    strictEqual(seen, version);
  }
  const before = performance.now();
  strictEqual(await daemon.stop(), 0);
  strictEqual(performance.now() - before < 3000, true);
  session.destroy();
  await within("the end of the connection", closed.promise);
});
