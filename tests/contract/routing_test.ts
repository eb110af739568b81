import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { refused } from "../support/answers.ts";
import { Daemon, HOOK_PREFIX } from "../support/daemon.ts";
import { bodyText, header, headerValues, type RawResponse, request } from "../support/raw_http.ts";
import { pageRoutes } from "../support/protocol_page.ts";
import { withStarted } from "../support/with_daemon.ts";

/** A target of each route: an exec that nobody registered where there is an id. */
const TARGETS = pageRoutes().map(({ method, path, auth }) => ({
  method,
  auth,
  path: path.replace("{hook_prefix}", HOOK_PREFIX).replace("{id}", "x"),
}));

const BEARER = TARGETS.filter(({ auth }) => auth === "Bearer");

/** Each request on a connection of its own, as it is on the wire. */
async function ask(
  daemon: Daemon,
  method: string,
  target: string,
  headers: readonly (readonly [string, string])[] = [],
): Promise<RawResponse> {
  using connection = await daemon.connect();
  return await connection.ask(method, target, headers);
}

function isProse(daemon: Daemon, answer: RawResponse, status: number): void {
  strictEqual(answer.status, status);
  strictEqual(header(answer, "content-type"), "text/plain; charset=utf-8");
  match(bodyText(answer), /^[^\n]+\n$/);
  deepStrictEqual(headerValues(answer, "service-version"), [daemon.document.daemon_version]);
}

withStarted.test("before a token every Bearer route is 503, with any token or none, and the others are not", async ({ daemon }) => {
  for (const { method, path } of BEARER) {
    isProse(daemon, await ask(daemon, method, path), 503);
    isProse(daemon, await ask(daemon, method, path, [["Authorization", "Bearer x"]]), 503);
    isProse(daemon, await ask(daemon, method, path, [["Authorization", "\xff\xfe"]]), 503);
  }
  for (const path of ["/v1/health", "/v1/schema"]) {
    strictEqual((await ask(daemon, "GET", path)).status, 200);
  }
});

withStarted.test("another token, or anything but one Bearer header, is 401 with a challenge on every Bearer route", async ({ daemon }) => {
  await daemon.bootstrap("tok en");
  const wrong: readonly (readonly (readonly [string, string])[])[] = [
    [],
    [["Authorization", ""]],
    [["Authorization", "Bearer"]],
    [["Authorization", "Bearer "]],
    [["Authorization", "Bearer tok"]],
    [["Authorization", "Bearer tok en2"]],
    [["Authorization", "Bearer Tok en"]],
    [["Authorization", "Bearer  tok en"]],
    [["Authorization", "Basic dG9rIGVu"]],
    [["Authorization", "tok en"]],
    [["Authorization", "Bearer\ttok en"]],
    [["Authorization", "Bearer t\xf6k"]],
    [["Authorization", "Bearer tok en"], ["Authorization", "Bearer tok en"]],
  ];
  for (const { method, path } of BEARER) {
    for (const headers of wrong) {
      const answer = await ask(daemon, method, path, headers);
      isProse(daemon, answer, 401);
      strictEqual(header(answer, "www-authenticate"), "Bearer");
    }
  }
  for (const scheme of ["Bearer", "bearer", "BEARER"]) {
    const authorization = ["Authorization", `${scheme} tok en`] as const;
    strictEqual((await ask(daemon, "GET", "/v1/procs", [authorization])).status, 200);
  }
});

withStarted.test("an unmatched path is 404 in prose and never 401, before and after bootstrap", async ({ daemon }) => {
  const paths = [
    "/",
    "/v1",
    "/v1/",
    "/v2/health",
    "/v1/health/",
    "/v1/HEALTH",
    "/v1//health",
    "//v1/health",
    "/v1/./health",
    "/v1/../v1/health",
    "/v1/%68ealth",
    "/v1/exec",
    "/v1/exec/",
    "/v1/exec//stream",
    "/v1/exec/x/unknown",
    "/v1/exec/x/stream/more",
    "/v1/procs/",
    `${HOOK_PREFIX}/`,
    `${HOOK_PREFIX}/restart`,
    "/ready",
    "/v1/health#x",
    "/v1/fs/file/x",
    "/*",
  ];
  for (const bootstrapped of [false, true]) {
    if (bootstrapped) await daemon.bootstrap("t");
    for (const path of paths) {
      for (const token of ["", "Bearer t", "Bearer other"]) {
        isProse(daemon, await ask(daemon, "GET", path, [["Authorization", token]]), 404);
      }
      isProse(daemon, await ask(daemon, "DELETE", path), 404);
    }
  }
});

withStarted.test("another method on a path of the roster is 405 with Allow, no token asked, HEAD included", async ({ daemon }) => {
  for (const { path } of TARGETS) {
    const allowed = TARGETS.filter((target) => target.path === path).map(({ method }) => method);
    if (path === "/v1/exec/start") allowed.push("GET");
    for (const method of ["HEAD", "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"]) {
      if (allowed.includes(method)) continue;
      using connection = await daemon.connect();
      const answer = await connection.ask(method, path);
      strictEqual(answer.status, 405, `${method} ${path}`);
      const allow = (header(answer, "allow") ?? "").split(", ");
      deepStrictEqual(allow.toSorted(), allowed.toSorted());
      strictEqual(header(answer, "service-version"), daemon.document.daemon_version);
      ok(method !== "HEAD" || answer.body.length === 0);
    }
  }
});

withStarted.test("nothing of a body is read before auth has passed: the answer does not wait for it", async ({ daemon }) => {
  for (const status of [503, 401]) {
    using connection = await daemon.connect();
    const huge = ["Content-Length", "100000000"] as const;
    const answer = await connection.ask("POST", "/v1/exec/start", [huge]);
    isProse(daemon, answer, status);
    strictEqual(header(answer, "connection"), "close");
    if (status === 503) await daemon.bootstrap();
  }
});

withStarted.test("a query is looked at behind the gate: a bad one is 503, then 401, then 400", async ({ daemon }) => {
  const targets = ["/v1/exec/x/stream?offset=x", "/v1/tcp?port=x", "/v1/fs/file?path="];
  const each = async (status: number, token?: string): Promise<void> => {
    const headers = token === undefined ? [] : [["Authorization", `Bearer ${token}`] as const];
    for (const target of targets) {
      strictEqual((await ask(daemon, "GET", target, headers)).status, status, target);
    }
  };
  await each(503);
  await daemon.bootstrap("t");
  await each(401);
  await each(400, "t");
});

Deno.test("a refused body within max_drain_bytes keeps its connection, more to come or chunks close it", async () => {
  await using daemon = await Daemon.start({ env: { GUESTD_MAX_DRAIN_BYTES: "100" } });
  const framings: [name: string, value: string, body: string, kept: boolean][] = [
    ["Content-Length", "100", "x".repeat(100), true],
    ["Content-Length", "101", "x".repeat(101), false],
    ["Transfer-Encoding", "chunked", "1\r\nx\r\n0\r\n\r\n", false],
  ];
  for (const [name, value, body, kept] of framings) {
    using connection = await daemon.connect(request("POST", "/v1/exec/start", [[name, value]]));
    const answer = await connection.response();
    const said = header(answer, "connection");
    deepStrictEqual([answer.status, said], [503, kept ? undefined : "close"]);
    await connection.send(body);
    if (kept) strictEqual((await connection.ask("GET", "/v1/health")).status, 200);
    else await connection.closedByPeer();
  }
});

withStarted.test("a path id whose escapes are malformed passes the gate first, then is unknown_exec", async ({ daemon }) => {
  const bad = ["%", "%4", "%zz", "%ff", "%c3%28", "%ed%a0%80", "a%"];
  for (const id of bad) isProse(daemon, await ask(daemon, "GET", `/v1/exec/${id}`), 503);
  await daemon.bootstrap();
  for (const id of bad) {
    isProse(daemon, await ask(daemon, "GET", `/v1/exec/${id}`), 401);
    for (const [method, what] of [["GET", ""], ["POST", "/ack"], ["POST", "/kill"]] as const) {
      const response = await daemon.fetch(`/v1/exec/${id}${what}`, { method });
      await refused(response, 404, "unknown_exec");
    }
  }
});

withStarted.test("absolute-form targets are served, an authority that is not host[:port] is 400 and shifts no path", async ({ daemon }) => {
  const served = [
    "http://guest:9000/v1/health",
    "https://other:1/v1/health?x",
    "ftp://[::1]:9/v1/health",
    "HTTP://1.2.3.4/v1/health",
  ];
  for (const target of served) strictEqual((await ask(daemon, "GET", target)).status, 200, target);
  const nowhere = [
    "http://guest/nowhere",
    "http://other",
    "http://other?/v1/health",
    "http://o//v1/health",
  ];
  for (const target of nowhere) isProse(daemon, await ask(daemon, "GET", target), 404);
  isProse(daemon, await ask(daemon, "OPTIONS", "*"), 404);
  isProse(daemon, await ask(daemon, "CONNECT", "somewhere:80"), 404);
  for (const target of ["http://u@h/v1/health", "http://h:x/v1/health"]) {
    strictEqual((await ask(daemon, "GET", target)).status, 400, target);
  }
  const bad = ["a/b", "x/v1/health?", "x?y", "h#f", "u:p@h", "a b", "x:99999", "x:abc", ":80"];
  for (const host of [...bad, "\xe9", "a\\b", "[::1", "../x", "x, y"]) {
    isProse(daemon, await ask(daemon, "GET", "/v1/health", [["Host", host]]), 400);
  }
  for (const host of ["x:80", "x:", "[::1]:9000", "127.0.0.1:1", "", "x".repeat(5000), "a_b.c-d"]) {
    strictEqual((await ask(daemon, "GET", "/v1/health", [["Host", host]])).status, 200, host);
  }
  using connection = await daemon.connect("GET /v1/health HTTP/1.1\r\n\r\n");
  strictEqual((await connection.response()).status, 200);
});
