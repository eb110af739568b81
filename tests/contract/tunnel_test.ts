import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { closedPort } from "../support/closed_port.ts";
import { Daemon } from "../support/daemon.ts";
import { closing, OP } from "../support/frames.ts";
import { closedBy, SAMPLE_ACCEPT, TunnelClient } from "../support/tunnel_client.ts";
import { Guest } from "../support/tunnel_guest.ts";
import { sharedTunnel } from "../support/with_tunnel.ts";
import { sharedDaemon } from "../support/with_daemon.ts";

/** Asks for a tunnel and gives the answer's head and the rest of its first piece. */
async function answer(
  daemon: Daemon,
  query: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<string> {
  using client = await TunnelClient.ask(daemon, query, new Uint8Array(), headers);
  return await client.head();
}

Deno.test("a tunnel is answered with 101, the accept key and the version", async () => {
  await using daemon = await Daemon.bootstrapped({
    env: { GUESTD_VERSION_HEADER: "X-Guest-Version" },
  });
  using guest = new Guest();
  const head = await answer(daemon, `?port=${guest.port}`);
  match(head, /^HTTP\/1\.1 101 Switching Protocols\r\n/);
  const headers = new Headers(
    head.split("\r\n").slice(1, -2).map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    }),
  );
  strictEqual(headers.get("upgrade"), "websocket");
  strictEqual(headers.get("connection"), "Upgrade");
  strictEqual(headers.get("sec-websocket-accept"), SAMPLE_ACCEPT);
  strictEqual(headers.get("x-guest-version"), (await daemon.guest.health()).version);
});

sharedDaemon.test("a port or an identity that is not one is refused before the upgrade", async ({ daemon }) => {
  const queries = [
    "",
    "?port",
    "?port=",
    "?port=-1",
    "?port=0x50",
    "?port=%2080",
    "?port=80%20",
    "?port=+80",
    "?port=65536",
    "?port=99999999999999999999999999",
    "?port=8e1",
    "?port=80.0",
    "?port=%D9%A8",
    "?port=%FF",
    "?port=x&port=80",
    "?PORT=80",
    "?port=80&identity=yes",
    "?port=80&identity=TRUE",
    "?port=80&identity=",
    "?port=80&identity=01",
  ];
  for (const query of queries) {
    const response = await daemon.fetch(`/v1/tcp${query}`);
    strictEqual(response.status, 400, query);
    const { error, detail } = await response.json();
    strictEqual(error, "malformed_request", query);
    match(detail, query.includes("identity") ? /identity/ : /port/, query);
    const head = await answer(daemon, query);
    match(head, /^HTTP\/1\.1 400 /, query);
    match(head, /\r\nservice-version: /i, query);
  }
});

sharedDaemon.test("of a repeated port the first counts, and leading zeros do not", async ({ daemon }) => {
  using guest = new Guest();
  const queries = [
    `?port=${guest.port}&port=x`,
    `?port=000${guest.port}`,
    `?x=1&port=${guest.port}&identity=0`,
  ];
  for (const query of queries) {
    using client = await TunnelClient.open(daemon, query);
    using connection = await guest.accept();
    await connection.send("here");
    strictEqual(await client.text(4), "here");
  }
});

sharedDaemon.test("a request that is no WebSocket upgrade is refused", async ({ daemon }) => {
  using guest = new Guest();
  const query = `?port=${guest.port}`;
  const plain = await daemon.fetch(`/v1/tcp${query}`);
  strictEqual(plain.status, 400);
  strictEqual((await plain.json()).error, "malformed_request");
  const cases: Record<string, string>[] = [
    { Upgrade: "h2c" },
    { Connection: "keep-alive" },
    { "Sec-WebSocket-Version": "8" },
    { "Sec-WebSocket-Key": "" },
    { "Sec-WebSocket-Key": "c2hvcnQ=" },
    { "Sec-WebSocket-Key": "not base64 at all!!!!!!!" },
    { "Content-Length": "1" },
    { "Transfer-Encoding": "chunked" },
  ];
  for (const headers of cases) {
    match(await answer(daemon, query, headers), /^HTTP\/1\.1 400 /, JSON.stringify(headers));
  }
  strictEqual(guest.dials, 0);
});

sharedDaemon.test("upgrade headers count in any case and in lists", async ({ daemon }) => {
  using guest = new Guest();
  const headers = { Connection: "keep-alive, uPGRADE", Upgrade: "WebSocket" };
  match(await answer(daemon, `?port=${guest.port}`, headers), /^HTTP\/1\.1 101 /);
});

sharedDaemon.test("what stands in the way after the upgrade is said with a close code and a reason", async ({ daemon }) => {
  using closed = await closedPort();
  const cases: [query: string, code: number, reason: RegExp][] = [
    ["?port=0", 4400, /port 0/],
    ["?port=0&identity=1", 4400, /port 0/],
    [`?port=${closed.port}`, 4502, new RegExp(`port ${closed.port}\\b.*ECONNREFUSED`)],
    [`?port=${closed.port}&identity=1`, 4401, /identity/],
    [`?port=${closed.port}&identity=true`, 4401, /identity/],
  ];
  for (const [query, code, reason] of cases) {
    using client = await TunnelClient.open(daemon, query);
    const close = await client.closed();
    strictEqual(close.code, code, query);
    match(close.reason, reason, query);
  }
});

sharedTunnel.test("a client's close is answered as it was said", async ({ client, connection }) => {
  await client.send(closing(3210, "enough"));
  const answered = await client.frame();
  strictEqual(answered?.opcode, OP.close);
  deepStrictEqual(closedBy(answered), { code: 3210, reason: "enough" });
  await client.ended();
  strictEqual(await connection.ending(), "end");
});

sharedDaemon.test("the dial goes to 127.0.0.1 and nowhere else", async ({ daemon }) => {
  using elsewhere = Deno.listen({ hostname: "127.0.0.2", port: 0 });
  using client = await TunnelClient.open(daemon, `?port=${elsewhere.addr.port}`);
  strictEqual((await client.closed()).code, 4502);
});
