import { strictEqual } from "node:assert/strict";
import { within } from "../support/await_event.ts";
import { HOOK_PREFIX } from "../support/daemon.ts";
import { Http2Client } from "../support/http2_client.ts";
import { withDaemon } from "../support/with_daemon.ts";

withDaemon.test("HTTP/2 without TLS gets the same answers, and does not hold the end up", async ({ daemon }) => {
  const version = daemon.document.daemon_version;
  using client = new Http2Client(daemon);
  const closed = Promise.withResolvers<void>();
  client.session.on("close", () => closed.resolve());
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
    const { head } = await client.ask(headers);
    strictEqual(head[":status"], status, headers[":path"]);
    strictEqual(head["service-version"], version);
  }
  const before = performance.now();
  strictEqual(await daemon.stop(), 0);
  strictEqual(performance.now() - before < 3000, true);
  client[Symbol.dispose]();
  await within("the end of the connection", closed.promise);
});
