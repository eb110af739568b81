import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { ROWS, servedPath } from "../../src/contract/rows.ts";
import { VERSION } from "../../src/contract/version.ts";
import {
  bodyText,
  header,
  headerValues,
  RawConnection,
  type RawResponse,
} from "../support/raw_http.ts";
import { AUTHORIZED, PREFIX, RouterFixture } from "./http_fixture.ts";

/** Sends one request on a connection of its own. */
async function ask(
  port: number,
  ...parts: Parameters<RawConnection["ask"]>
): Promise<RawResponse> {
  using connection = await RawConnection.open(port);
  return await connection.ask(...parts);
}

function isLine(response: RawResponse, status: number): void {
  strictEqual(response.status, status);
  strictEqual(header(response, "content-type"), "text/plain; charset=utf-8");
  match(bodyText(response), /^[^\n]+\n$/);
  strictEqual(header(response, "service-version"), VERSION);
}

Deno.test("each of the 20 routes is served by its own handler", async () => {
  await using fixture = new RouterFixture();
  strictEqual(ROWS.length, 20);
  for (const row of ROWS) {
    const path = servedPath(row, PREFIX).replace("{id}", "x");
    const response = await ask(fixture.port, row.method, path, [AUTHORIZED]);
    strictEqual(
      bodyText(response),
      `${row.name} ${row.path.includes("{id}") ? '"x"' : "undefined"}\n`,
    );
    deepStrictEqual(headerValues(response, "service-version"), [VERSION]);
  }
});

Deno.test("a path outside of the roster is 404, with and without a token, whatever the method", async () => {
  await using fixture = new RouterFixture();
  const paths = [
    "/",
    "/v1",
    "/v1/health/",
    "/v1/Health",
    "//v1/health",
    "/v1//health",
    "/v1/./health",
    "/v1/x/../health",
    "/v1/%68ealth",
    "/v1/health#x",
    "/v1/exec/",
    "/v1/exec",
    "/v1/exec//stream",
    "/v1/exec/a/b",
    "/v1/exec/a/stream/",
    "/v1/fs/file/x",
    "/ready",
    `${PREFIX}`,
    `${PREFIX}/other`,
    `${PREFIX}//ready`,
    "/*",
  ];
  for (const path of paths) {
    isLine(await ask(fixture.port, "GET", path), 404);
    isLine(await ask(fixture.port, "POST", path, [AUTHORIZED]), 404);
  }
  isLine(await ask(fixture.port, "OPTIONS", "*"), 404);
  isLine(await ask(fixture.port, "CONNECT", "somewhere:80"), 404);
});

Deno.test("a path of the roster with another method is 405 with Allow, no token asked", async () => {
  await using fixture = new RouterFixture();
  const cases: [method: string, path: string, allow: string][] = [
    ["POST", "/v1/health", "GET"],
    ["GET", `${PREFIX}/ready`, "POST"],
    ["PUT", "/v1/exec/start", "POST, GET"],
    ["POST", "/v1/exec/x", "GET"],
    ["DELETE", "/v1/fs/file", "GET, PUT"],
    ["get", "/v1/health", "GET"],
    ["OPTIONS", "/v1/procs", "GET"],
  ];
  for (const [method, path, allow] of cases) {
    const response = await ask(fixture.port, method, path);
    isLine(response, 405);
    strictEqual(header(response, "allow"), allow);
    strictEqual(header(response, "www-authenticate"), undefined);
  }
});

Deno.test("HEAD is 405 too, and its answer has no body", async () => {
  await using fixture = new RouterFixture();
  using connection = await RawConnection.open(fixture.port);
  const response = await connection.ask("HEAD", "/v1/health");
  strictEqual(response.status, 405);
  strictEqual(header(response, "allow"), "GET");
  strictEqual(header(response, "service-version"), VERSION);
  strictEqual((await connection.ask("GET", "/v1/health")).status, 200);
});

Deno.test("/v1/exec/start is the start route and the path of the exec named start", async () => {
  await using fixture = new RouterFixture();
  const { port } = fixture;
  const start = await ask(port, "POST", "/v1/exec/start", [AUTHORIZED]);
  strictEqual(bodyText(start), "exec_start undefined\n");
  strictEqual(
    bodyText(await ask(port, "GET", "/v1/exec/start", [AUTHORIZED])),
    'exec_poll "start"\n',
  );
  const stream = await ask(port, "GET", "/v1/exec/start/stream?offset=1", [AUTHORIZED]);
  strictEqual(bodyText(stream), 'exec_stream "start"\n');
});

Deno.test("an id is percent-decoded once and not touched otherwise", async () => {
  await using fixture = new RouterFixture();
  const cases: [raw: string, id: string | undefined][] = [
    ["a%2Fb", "a/b"],
    ["%2e%2e", ".."],
    ["..", ".."],
    ["a+b", "a+b"],
    ["%252F", "%2F"],
    ["%C3%A9", "é"],
    ["\xc3\xa9", "é"],
    ["%00", "\0"],
    ["a\\b", "a\\b"],
    ["a#b", "a#b"],
    ["__proto__", "__proto__"],
    ["%7Bid%7D", "{id}"],
    ["%EF%BB%BFx", "\ufeffx"],
    ["%", undefined],
    ["%zz", undefined],
    ["%E9", undefined],
    ["%ED%A0%80", undefined],
    ["%C0%AF", undefined],
  ];
  for (const [raw, id] of cases) {
    const response = await ask(fixture.port, "GET", `/v1/exec/${raw}`, [AUTHORIZED]);
    strictEqual(bodyText(response), `exec_poll ${JSON.stringify(id)}\n`, raw);
  }
});

Deno.test("an id that cannot be decoded is seen after the gate only", async () => {
  await using fixture = new RouterFixture();
  isLine(await ask(fixture.port, "GET", "/v1/exec/%"), 401);
});

Deno.test("absolute-form targets are served, whatever their scheme, also with another Host", async () => {
  await using fixture = new RouterFixture();
  for (
    const target of [
      "http://other/v1/health",
      "https://other:1/v1/health?x",
      "ftp://[::1]:9/v1/health",
      "HTTP://1.2.3.4/v1/health",
    ]
  ) {
    strictEqual(bodyText(await ask(fixture.port, "GET", target)), "health undefined\n");
  }
  isLine(await ask(fixture.port, "GET", "http://other"), 404);
  isLine(await ask(fixture.port, "GET", "http://other?/v1/health"), 404);
  isLine(await ask(fixture.port, "GET", "http://other//v1/health"), 404);
});

Deno.test("an authority that is not host[:port] is 400 and shifts no path", async () => {
  await using fixture = new RouterFixture();
  const hosts = [
    "a/b",
    "x/v1/health?",
    "x?y",
    "h#f",
    "u:p@h",
    "a b",
    "x:99999",
    "x:abc",
    ":80",
    "\xe9",
    "a\\b",
    "[::1",
    "../x",
    "x, y",
  ];
  for (const host of hosts) {
    isLine(await ask(fixture.port, "GET", "/v1/health", [["Host", host]]), 400);
  }
  for (const target of ["http://u@h/v1/health", "http://h:x/v1/health"]) {
    const { status } = await ask(fixture.port, "GET", target);
    strictEqual(status, 400, target);
  }
});

Deno.test("a Host that is host[:port], empty or missing is served", async () => {
  await using fixture = new RouterFixture();
  const hosts = ["x", "x:80", "x:", "[::1]:9000", "127.0.0.1:1", "", "x".repeat(5000), "a_b.c-d"];
  for (const host of hosts) {
    const response = await ask(fixture.port, "GET", "/v1/health", [["Host", host]]);
    strictEqual(response.status, 200, host);
  }
  using connection = await RawConnection.open(fixture.port);
  await connection.send("GET /v1/health HTTP/1.1\r\n\r\n");
  strictEqual((await connection.response()).status, 200);
});

Deno.test("before a token a Bearer route is 503, also with a token and with any header", async () => {
  await using fixture = new RouterFixture({ token: null });
  for (const row of ROWS.filter(({ auth }) => auth === "Bearer")) {
    const path = row.path.replace("{id}", "%");
    isLine(await ask(fixture.port, row.method, path), 503);
    isLine(await ask(fixture.port, row.method, path, [AUTHORIZED]), 503);
  }
  strictEqual((await ask(fixture.port, "GET", "/v1/health")).status, 200);
  strictEqual((await ask(fixture.port, "POST", `${PREFIX}/ready`)).status, 200);
});

Deno.test("a Bearer route without the installed token is 401 with a challenge", async () => {
  await using fixture = new RouterFixture();
  const headers: (readonly [string, string])[][] = [
    [],
    [["Authorization", "Bearer wrong"]],
    [["Authorization", "Bearer tok-012345678"]],
    [["Authorization", "Bearer"]],
    [["Authorization", "Bearertok-0123456789"]],
    [["Authorization", "tok-0123456789"]],
    [["Authorization", ""]],
    [["Authorization", "Bearer\ttok-0123456789"]],
    [["Authorization", "Bearer  tok-0123456789"]],
    [["Authorization", "Basic tok-0123456789"]],
    [["Authorization", "Bearer \xe9\xff"]],
    [AUTHORIZED, AUTHORIZED],
    [AUTHORIZED, ["Authorization", "Basic x"]],
    [["Authorization", "Bearer tok-0123456789 x"]],
  ];
  for (const given of headers) {
    const response = await ask(fixture.port, "GET", "/v1/procs", given);
    isLine(response, 401);
    strictEqual(header(response, "www-authenticate"), "Bearer");
  }
});

Deno.test("the scheme is taken in any case, spaces at the end are not the token's", async () => {
  await using fixture = new RouterFixture();
  for (const value of ["bearer tok-0123456789", "BEARER tok-0123456789  "]) {
    const response = await ask(fixture.port, "GET", "/v1/procs", [["authorization", value]]);
    strictEqual(response.status, 200);
  }
});

Deno.test("a token outside of ASCII is compared as the UTF-8 bytes on the wire", async () => {
  await using fixture = new RouterFixture({ token: "clé 鍵, x" });
  const utf8 = Array.from(new TextEncoder().encode("clé 鍵, x"), (b) => String.fromCharCode(b));
  const right = await ask(fixture.port, "GET", "/v1/procs", [[
    "Authorization",
    `Bearer ${utf8.join("")}`,
  ]]);
  strictEqual(right.status, 200);
  // The same characters in latin-1 are other bytes.
  isLine(await ask(fixture.port, "GET", "/v1/procs", [["Authorization", "Bearer cl\xe9"]]), 401);
});

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
    if (row.auth === "PlatformHook" && row.name !== "run") strictEqual(response.status, 200);
    else if (slug !== undefined) {
      strictEqual(response.status, 500);
      strictEqual(JSON.parse(bodyText(response)).error, slug);
    } else isLine(response, 500);
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
  await connection.send(
    "GET /v1/tcp HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
      `Authorization: ${AUTHORIZED[1]}\r\nSec-WebSocket-Version: 13\r\n` +
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  );
  const head = await connection.head();
  strictEqual(head.status, 101);
  strictEqual(header(head, "connection"), "Upgrade");
});

Deno.test("while the daemon drains every answer says close", async () => {
  await using fixture = new RouterFixture();
  using connection = await RawConnection.open(fixture.port);
  strictEqual(header(await connection.ask("GET", "/v1/health"), "connection"), undefined);
  fixture.router.drain();
  strictEqual(header(await connection.ask("GET", "/v1/health"), "connection"), "close");
});
