import { deepStrictEqual, match, notStrictEqual, strictEqual, throws } from "node:assert/strict";
import { Refusal } from "../../src/contract/refusal.ts";
import { tunnelRoutes } from "../../src/http/routes/tunnel.ts";
import type { Core } from "../../src/native/core.ts";
import { TunnelEnd } from "../../src/native/tunnel.ts";
import { Tunnels } from "../../src/tunnel/tunnels.ts";
import { findUpgrade, upgradeHead, websocketKey } from "../../src/tunnel/upgrade.ts";
import { closeFrame, verdictOf } from "../../src/tunnel/verdict.ts";
import { KeptLog, RouterFixture, TOKEN } from "./http_fixture.ts";

const KEY = "dGhlIHNhbXBsZSBub25jZQ==";

Deno.test("this Deno still has the raw upgrade that tunnels need", () => {
  notStrictEqual(findUpgrade(), undefined);
});

/** All tunnels, as a Deno without the raw upgrade would have them. */
function withoutUpgrade(kept: KeptLog): Tunnels {
  const internals: object = Reflect.get(Deno, Reflect.get(Deno, "internal"));
  const found = Reflect.getOwnPropertyDescriptor(internals, "upgradeHttpRaw");
  if (found === undefined) throw new Error("Cannot take the raw upgrade away: there is none");
  Reflect.deleteProperty(internals, "upgradeHttpRaw");
  try {
    // No core is asked where no connection can be had.
    return new Tunnels({ core: {} as Core, localPort: () => 0, log: kept.log });
  } finally {
    Reflect.defineProperty(internals, "upgradeHttpRaw", found);
  }
}

Deno.test("a Deno without the raw upgrade says so, answers tunnels with 500 and serves all else", async () => {
  const kept = new KeptLog();
  const tunnels = withoutUpgrade(kept);
  deepStrictEqual(kept.lines.map(({ level }) => level), ["error"]);
  await using fixture = new RouterFixture({
    handlers: tunnelRoutes({ tunnels, versionHeader: "service-version" }),
  });
  using caller = await Deno.connect({ hostname: "127.0.0.1", port: fixture.port });
  const request = "GET /v1/tcp?port=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n" +
    `Upgrade: websocket\r\nSec-WebSocket-Key: ${KEY}\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`;
  await caller.write(new TextEncoder().encode(request));
  const buffer = new Uint8Array(1000);
  const answer = new TextDecoder().decode(buffer.subarray(0, await caller.read(buffer) ?? 0));
  match(answer, /^HTTP\/1\.1 500 [^]*\r\nservice-version: /i);
  const health = await fetch(`http://127.0.0.1:${fixture.port}/v1/health`);
  strictEqual(health.status, 200);
  await health.body?.cancel();
});

Deno.test("the raw upgrade gives back what was read behind the request before anything else", async () => {
  const upgrade = findUpgrade();
  if (upgrade === undefined) throw new Error("Cannot test the raw upgrade: there is none");
  const heard = Promise.withResolvers<string>();
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen(): void {} },
    (request) => {
      const { conn, response } = upgrade(request);
      (async (): Promise<void> => {
        await conn.write(await upgradeHead(KEY, {}));
        const buffer = new Uint8Array(1000);
        heard.resolve(new TextDecoder().decode(buffer.subarray(0, await conn.read(buffer) ?? 0)));
        conn.close();
      })().catch(heard.reject);
      return response;
    },
  );
  using caller = await Deno.connect({ hostname: "127.0.0.1", port: server.addr.port });
  const request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
  await caller.write(new TextEncoder().encode(`${request}behind it`));
  strictEqual(await heard.promise, "behind it");
});

Deno.test("a request for a WebSocket says its key, any other is refused by name", () => {
  const headers = {
    connection: "keep-alive, Upgrade",
    upgrade: "WebSocket",
    "sec-websocket-key": KEY,
  };
  const ask = (changed: Record<string, string>): string =>
    websocketKey(new Request("http://x/", { headers: { ...headers, ...changed } }));
  strictEqual(ask({}), KEY);
  strictEqual(ask({ "sec-websocket-version": "13" }), KEY);
  const refused: [changed: Record<string, string>, detail: RegExp][] = [
    [{ upgrade: "websockets" }, /upgrade/],
    [{ connection: "close" }, /upgrade/],
    [{ "sec-websocket-version": "7" }, /version/],
    [{ "sec-websocket-key": "short" }, /key/],
    [{ "content-length": "3" }, /body/],
  ];
  for (const [changed, detail] of refused) {
    throws(() => ask(changed), (error: unknown) => {
      if (!(error instanceof Refusal)) return false;
      match(error.detail, detail);
      return error.slug === "malformed_request";
    });
  }
});

Deno.test("each end has the close code that the protocol gives it", () => {
  const code = (end: number, errno = 0): number => verdictOf({ end, errno }, 80).code;
  deepStrictEqual(Object.values(TunnelEnd).map((end) => code(end)), [
    0,
    1000,
    0,
    0,
    4500,
    4500,
    4403,
    4500,
    1002,
  ]);
  strictEqual(code(TunnelEnd.dialFailed, 111), 4502);
  strictEqual(code(TunnelEnd.dialFailed, 110), 4502);
  strictEqual(code(TunnelEnd.dialFailed, 24), 4500);
  deepStrictEqual([...closeFrame({ code: 4500, reason: "no" })], [
    0x88,
    4,
    4500 >> 8,
    4500 & 0xff,
    110,
    111,
  ]);
});
