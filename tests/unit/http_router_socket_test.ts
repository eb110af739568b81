import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { ROWS, servedPath } from "../../src/contract/rows.ts";
import { VERSION } from "../../src/contract/version.ts";
import {
  bodyText,
  header,
  headerValues,
  RawConnection,
  type RawResponse,
  request,
} from "../support/raw_http.ts";
import { UPGRADE } from "../support/tunnel_client.ts";
import { AUTHORIZED, PREFIX, RouterFixture } from "./http_fixture.ts";

/** Sends one request on a connection of its own. */
async function ask(
  port: number,
  ...parts: Parameters<RawConnection["ask"]>
): Promise<RawResponse> {
  using connection = await RawConnection.open(port);
  return await connection.ask(...parts);
}

Deno.test("the version header has the configured name, and is there once even if a handler set it", async () => {
  await using fixture = new RouterFixture({
    versionHeader: "X-Guest-Version",
    handlers: {
      health: () => new Response(null, { headers: { "x-guest-version": "other" } }),
      exec_poll: () => {
        throw new Error("broken");
      },
    },
  });
  for (const path of ["/v1/health", "/v1/exec/x", "/nowhere"]) {
    const response = await ask(fixture.port, "GET", path, [AUTHORIZED]);
    deepStrictEqual(headerValues(response, "x-guest-version"), [VERSION]);
    strictEqual(header(response, "service-version"), undefined);
  }
});

Deno.test("a handler that fails is answered by its route's rule, and logged without its message", async () => {
  const fail = (): Response => {
    throw new TypeError("SECRET");
  };
  const names = ROWS.map(({ name }) => name);
  await using fixture = new RouterFixture({
    handlers: Object.fromEntries(names.map((name) => [name, fail])),
  });
  for (const row of ROWS) {
    const path = servedPath(row, PREFIX).replace("{id}", "x");
    const response = await ask(fixture.port, row.method, path, [AUTHORIZED]);
    strictEqual(header(response, "service-version"), VERSION);
    ok(!bodyText(response).includes("SECRET"));
    const slug =
      { exec_start: "spawn_failed", exec_stdin: "stdin_write_failed" }[row.name as string];
    const harmless = row.auth === "PlatformHook" && row.name !== "run";
    strictEqual(response.status, harmless ? 200 : 500);
    if (slug !== undefined) strictEqual(JSON.parse(bodyText(response)).error, slug);
    else if (!harmless) {
      strictEqual(header(response, "content-type"), "text/plain; charset=utf-8");
      match(bodyText(response), /^[^\n]+\n$/);
    }
  }
  strictEqual(fixture.kept.lines.length, 20);
  for (const [index, line] of fixture.kept.lines.entries()) {
    strictEqual(line["level"], "error");
    strictEqual(line["kind"], "TypeError");
    strictEqual(line["route"], names[index]);
    match(String(line["at"]), /fail/);
    ok(!JSON.stringify(line).includes("SECRET"));
  }
});

Deno.test("onError answers 500 with the version", async () => {
  await using fixture = new RouterFixture();
  const response = fixture.router.onError(new Error("SECRET"));
  strictEqual(response.status, 500);
  strictEqual(response.headers.get("service-version"), VERSION);
  ok(!(await response.text()).includes("SECRET"));
  ok(!JSON.stringify(fixture.kept.lines).includes("SECRET"));
});

Deno.test("an upgrade is answered as its handler says, and never told to close", async () => {
  await using fixture = new RouterFixture({
    handlers: {
      tcp: ({ request }) => {
        const { response, socket } = Deno.upgradeWebSocket(request);
        socket.onopen = () => socket.close();
        return response;
      },
    },
  });
  fixture.router.drain();
  using connection = await RawConnection.open(fixture.port);
  await connection.send(request("GET", "/v1/tcp", [AUTHORIZED, ...UPGRADE]));
  const head = await connection.head();
  strictEqual(head.status, 101);
  strictEqual(header(head, "connection"), "Upgrade");
});
