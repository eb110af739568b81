import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import {
  Body,
  memoriesFor,
  readRunHookBody,
  readStartBody,
  readStdinBody,
} from "../../src/http/body.ts";
import { BodyLost } from "../../src/http/body_lost.ts";
import { json } from "../../src/http/respond.ts";
import type { Handlers } from "../../src/http/router.ts";
import {
  bodyText,
  header,
  headerValues,
  RawConnection,
  type RawResponse,
  request,
} from "../support/raw_http.ts";
import { AUTHORIZED, PREFIX, RouterFixture } from "./http_fixture.ts";

const MIB = 1024 * 1024;
const limits = { ...DEFAULT_LIMITS, max_body_bytes: 32 * MIB };
const { start, stdin } = memoriesFor(limits);

/** Handlers that read a body by their route's rule and answer with its length. */
const readers: Partial<Handlers> = {
  exec_start: async ({ request }) => length(await readStartBody(request, limits, start)),
  exec_stdin: async ({ request }) => length(await readStdinBody(request, limits, stdin)),
  run: async ({ request }) => length(await readRunHookBody(request)),
};

function length(body: Body): Response {
  using _ = body;
  return json(200, body.decoded((bytes) => bytes.length));
}

const HEALTH = request("GET", "/v1/health");

function head(method: string, path: string, ...headers: (readonly [string, string])[]): Uint8Array {
  return request(method, path, headers);
}

/** Deno may add a close of its own to ours. */
function saysClose(response: RawResponse): void {
  const values = headerValues(response, "connection");
  ok(values.length > 0 && values.every((value) => value === "close"), values.join());
}

Deno.test("a refused request with a small body keeps its connection", async () => {
  await using fixture = new RouterFixture();
  using connection = await RawConnection.open(fixture.port);
  for (const bytes of [5, 1000, DEFAULT_LIMITS.max_drain_bytes]) {
    // Behind the answer, so that it is drained and not already there.
    await connection.send(head("POST", "/v1/exec/start", ["Content-Length", `${bytes}`]));
    const refused = await connection.response();
    strictEqual(refused.status, 401);
    strictEqual(header(refused, "connection"), undefined);
    await connection.send(new Uint8Array(bytes));
    strictEqual((await connection.ask("GET", "/v1/health")).status, 200);
  }
});

Deno.test("the answer never waits for a body that does not come", async () => {
  await using fixture = new RouterFixture({ handlers: readers });
  const refusals: [path: string, length: string, status: number][] = [
    ["/v1/exec/start", "5", 401],
    ["/v1/exec/start", "100000", 401],
    ["/v1/exec/start", "18446744073709551615", 401],
    ["/nowhere", "5", 404],
    ["/v1/health", "5", 405],
    [`${PREFIX}/ready`, "5", 200],
    [`${PREFIX}/run`, "65537", 400],
  ];
  for (const [path, length, status] of refusals) {
    using connection = await RawConnection.open(fixture.port);
    await connection.send(head("POST", path, ["Content-Length", length]));
    const refused = await connection.response();
    strictEqual(refused.status, status);
    if (Number(length) > DEFAULT_LIMITS.max_drain_bytes) saysClose(refused);
  }
  using connection = await RawConnection.open(fixture.port);
  await connection.send(head("POST", "/v1/exec/start", ["Transfer-Encoding", "chunked"]));
  saysClose(await connection.response());
});

Deno.test("a larger or chunked body of a refused request that is still to come closes its connection", async () => {
  await using fixture = new RouterFixture({ limits: { max_drain_bytes: 4 } });
  using connection = await RawConnection.open(fixture.port);
  const asked = await connection.ask("POST", "/nowhere", [], "1234");
  strictEqual(header(asked, "connection"), undefined);
  await connection.send(head("POST", "/nowhere", ["Content-Length", "5"]));
  saysClose(await connection.response());
  await connection.send("12345");
  await connection.closedByPeer();
  using chunked = await RawConnection.open(fixture.port);
  await chunked.send(head("POST", "/nowhere", ["Transfer-Encoding", "chunked"]));
  saysClose(await chunked.response());
  await chunked.send("1\r\nx\r\n0\r\n\r\n");
  await chunked.closedByPeer();
});

Deno.test("what is sent after an early answer is swallowed, and the peer closes at its end", async () => {
  await using fixture = new RouterFixture();
  using connection = await RawConnection.open(fixture.port);
  await connection.send(head("POST", "/v1/exec/start", ["Content-Length", `${8 * MIB}`]));
  strictEqual((await connection.response()).status, 401);
  await connection.send(new Uint8Array(8 * MIB));
  await connection.closedByPeer();
});

Deno.test("a start body is read up to 16 MiB, dropped up to max_body_bytes, refused beyond", async () => {
  await using fixture = new RouterFixture({ handlers: readers });
  const posted = async (body: Uint8Array): Promise<RawResponse> => {
    using connection = await RawConnection.open(fixture.port);
    return await connection.ask("POST", "/v1/exec/start", [AUTHORIZED], body);
  };
  strictEqual(bodyText(await posted(new Uint8Array(16 * MIB))), String(16 * MIB));
  const dropped = await posted(new Uint8Array(16 * MIB + 1));
  strictEqual(dropped.status, 500);
  strictEqual(JSON.parse(bodyText(dropped)).error, "spawn_failed");
  using connection = await RawConnection.open(fixture.port);
  await connection.send(
    head("POST", "/v1/exec/start", AUTHORIZED, ["Content-Length", `${32 * MIB + 1}`]),
  );
  const refused = await connection.response();
  strictEqual(refused.status, 413);
  strictEqual(header(refused, "content-type"), "text/plain; charset=utf-8");
  saysClose(refused);
});

Deno.test("a chunked body counts as it comes", async () => {
  await using fixture = new RouterFixture({ handlers: readers });
  const cases: [path: string, bytes: number, status: number, slug: string | undefined][] = [
    ["/v1/exec/start", 16 * MIB, 200, undefined],
    ["/v1/exec/start", 16 * MIB + 1, 500, "spawn_failed"],
    ["/v1/exec/start", 32 * MIB + 1, 413, undefined],
    ["/v1/exec/x/stdin", 2 * MIB, 200, undefined],
    ["/v1/exec/x/stdin", 2 * MIB + 1, 413, "stdin_write_too_large"],
    [`${PREFIX}/run`, 65536, 200, undefined],
    [`${PREFIX}/run`, 65537, 400, undefined],
  ];
  for (const [path, bytes, status, slug] of cases) {
    using connection = await RawConnection.open(fixture.port);
    await connection.send(head("POST", path, AUTHORIZED, ["Transfer-Encoding", "chunked"]));
    await connection.send(`${bytes.toString(16)}\r\n`);
    await connection.send(new Uint8Array(bytes));
    await connection.send("\r\n0\r\n\r\n");
    const response = await connection.response();
    strictEqual(response.status, status, path);
    if (status === 200) strictEqual(bodyText(response), String(bytes));
    if (status === 413 || status === 400) saysClose(response);
    if (slug !== undefined) strictEqual(JSON.parse(bodyText(response)).error, slug);
  }
});

Deno.test("a declared body above its route's cap is refused unread", async () => {
  await using fixture = new RouterFixture({ handlers: readers });
  using connection = await RawConnection.open(fixture.port);
  await connection.send(
    head("POST", "/v1/exec/x/stdin", AUTHORIZED, ["Content-Length", `${2 * MIB + 1}`]),
  );
  const refused = await connection.response();
  strictEqual(refused.status, 413);
  strictEqual(JSON.parse(bodyText(refused)).error, "stdin_write_too_large");
});

Deno.test("an endless body costs no memory", async () => {
  await using fixture = new RouterFixture({
    handlers: {
      exec_start: async ({ request }) =>
        length(await readStartBody(request, DEFAULT_LIMITS, start)),
    },
  });
  using connection = await RawConnection.open(fixture.port);
  const piece = new Uint8Array(MIB);
  await connection.send(
    head("POST", "/v1/exec/start", AUTHORIZED, ["Content-Length", `${400 * MIB}`]),
  );
  const before = Deno.memoryUsage().rss;
  let most = 0;
  for (let sent = 0; sent < 400; sent++) {
    await connection.send(piece);
    most = Math.max(most, Deno.memoryUsage().rss);
  }
  strictEqual((await connection.response()).status, 500);
  ok(most - before < 150 * MIB, `RSS grew by ${Math.round((most - before) / MIB)} MiB`);
});

Deno.test("a client that vanishes in mid-body is no failure of the daemon's", async () => {
  const { promise: failed, resolve } = Promise.withResolvers<unknown>();
  await using fixture = new RouterFixture({
    handlers: {
      exec_start: async ({ request }) => {
        try {
          return length(await readStartBody(request, limits, start));
        } catch (error) {
          resolve(error);
          throw error;
        }
      },
    },
  });
  for (const framing of [["Content-Length", "100"], ["Transfer-Encoding", "chunked"]] as const) {
    const connection = await RawConnection.open(fixture.port);
    await connection.send(head("POST", "/v1/exec/start", AUTHORIZED, framing));
    await connection.send("5\r\nhello\r\n");
    connection[Symbol.dispose]();
  }
  ok(await failed instanceof BodyLost);
  using connection = await RawConnection.open(fixture.port);
  strictEqual((await connection.ask("GET", "/v1/health")).status, 200);
  deepStrictEqual(fixture.kept.lines.filter(({ level }) => level !== "debug"), []);
});

Deno.test("malformed chunks are no failure of the daemon's", async () => {
  await using fixture = new RouterFixture({ handlers: readers });
  using connection = await RawConnection.open(fixture.port);
  await connection.send(
    head("POST", "/v1/exec/start", AUTHORIZED, ["Transfer-Encoding", "chunked"]),
  );
  await connection.send("5\r\nhello\r\n");
  await connection.send("zz\r\n");
  // Whether a 400 comes first depends on how much the server had read when the handler began.
  while ((await connection.more()).length > 0);
  using next = await RawConnection.open(fixture.port);
  strictEqual((await next.ask("GET", "/v1/health")).status, 200);
  deepStrictEqual(fixture.kept.lines.filter(({ level }) => level !== "debug"), []);
});

Deno.test("a client that waits for 100 Continue gets it, and its body is read", async () => {
  await using fixture = new RouterFixture({ handlers: readers });
  using connection = await RawConnection.open(fixture.port);
  await connection.send(
    head("POST", "/v1/exec/start", AUTHORIZED, ["Content-Length", "5"], ["Expect", "100-continue"]),
  );
  const interim = new TextDecoder().decode(await connection.more());
  strictEqual(interim, "HTTP/1.1 100 Continue\r\n\r\n");
  await connection.send("hello");
  strictEqual(bodyText(await connection.response()), "5");
});

Deno.test("requests that were sent ahead are answered in order", async () => {
  await using fixture = new RouterFixture();
  using connection = await RawConnection.open(fixture.port);
  await connection.send(request("POST", "/v1/exec/start", [], "hello"));
  await connection.send(HEALTH);
  strictEqual((await connection.response()).status, 401);
  strictEqual((await connection.response()).status, 200);
});
