import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { HOOK_NAMES } from "../../src/contract/hooks.ts";
import { Daemon, HOOK_PREFIX } from "../support/daemon.ts";
import { latin1 } from "../support/bytes.ts";
import { Http2Client } from "../support/http2_client.ts";

/** What browsers put on the requests of pages; an ordinary client sends neither header. */
const OF_A_PAGE: readonly (readonly [name: string, value: string])[] = [
  ["origin", "https://example.com"],
  ["origin", "null"],
  ["origin", "http://127.0.0.1:9000"],
  ["origin", ""],
  ["sec-fetch-site", "cross-site"],
  ["sec-fetch-site", "same-site"],
  ["sec-fetch-site", "same-origin"],
  ["sec-fetch-site", ""],
];

const METHODS = ["POST", "GET", "PUT", "OPTIONS"];

const RUN = JSON.stringify({ runHookPayload: '{"agent_token":"of the page"}' });

Deno.test("for a web page there are no hooks: 404 whatever the method, and nothing has happened", async () => {
  await using daemon = await Daemon.start();
  using client = new Http2Client(daemon);
  for (const hook of HOOK_NAMES) {
    const path = `${HOOK_PREFIX}/${hook}`;
    for (const [name, value] of OF_A_PAGE) {
      for (const method of METHODS) {
        const body = method === "GET" ? "" : RUN;
        using connection = await daemon.connect();
        const { status } = await connection.ask(method, path, [
          ["Content-Type", "text/plain"],
          [name, value],
        ], body);
        strictEqual(status, 404, `${method} ${hook} with ${name}: ${value}`);
        const head = { ":path": path, ":method": method, [name]: value };
        const answer = await client.ask(head, body === "" ? undefined : latin1(body));
        strictEqual(answer.head[":status"], 404, `HTTP/2 ${method} ${hook}`);
      }
    }
  }
  const { bootstrapped, hooks, hooks_dropped } = await daemon.guest.health();
  deepStrictEqual([bootstrapped, hooks, hooks_dropped], [false, [], 0]);

  using connection = await daemon.connect();
  const typed = [["Sec-Fetch-Site", "none"]] as const;
  strictEqual((await connection.ask("POST", `${HOOK_PREFIX}/ready`, typed)).status, 200);
  const run = { ":path": `${HOOK_PREFIX}/run`, ":method": "POST" };
  strictEqual((await client.ask(run, latin1(RUN))).head[":status"], 200);
  deepStrictEqual((await daemon.guest.health()).hooks.map(({ hook }) => hook), ["ready", "run"]);
  await daemon.logWritten();
  deepStrictEqual(
    daemon.log.withMessage("hook").map(({ hook }) => hook),
    ["ready", "run", "ready"],
  );
});

Deno.test("a web page that has the token may ask every other route, as before", async () => {
  await using daemon = await Daemon.start();
  await daemon.bootstrap();
  using connection = await daemon.connect();
  const answer = await connection.ask("GET", "/v1/procs", [
    daemon.authorization,
    ["Origin", "https://example.com"],
    ["Sec-Fetch-Site", "cross-site"],
  ]);
  strictEqual(answer.status, 200);
});
