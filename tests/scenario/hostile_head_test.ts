import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { ECHO_LINES } from "../support/child_scripts.ts";
import { execPath, HOOK_PREFIX } from "../support/daemon.ts";
import { Footprint } from "../support/footprint.ts";
import { bodyText, header } from "../support/raw_http.ts";
import { withDaemonAsRoot } from "../support/with_daemon.ts";

const HEALTH = "GET /v1/health HTTP/1.1\r\n";
const READY = `POST ${HOOK_PREFIX}/ready HTTP/1.1\r\nHost: x\r\n`;
/** A request that would show in the hook log, if it were taken for one. */
const SMUGGLED = `POST ${HOOK_PREFIX}/suspend HTTP/1.1\r\nHost: x\r\n\r\n`;

/** Heads to which Deno's server says a bare 400 and goodbye. */
const REFUSED: Readonly<Record<string, string>> = {
  "zeros": "\0\0\0\0",
  "a TLS hello": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  "no version": "GET /v1/health\r\n\r\n",
  "an unknown version": "GET /v1/health HTTP/9.9\r\nHost: x\r\n\r\n",
  "no target": "GET HTTP/1.1\r\nHost: x\r\n\r\n",
  "two spaces": "GET  /v1/health HTTP/1.1\r\nHost: x\r\n\r\n",
  "a space in the target": "GET /v1/hea lth HTTP/1.1\r\nHost: x\r\n\r\n",
  "a byte above 0x7f in the target": "GET /v1/h\xffealth HTTP/1.1\r\nHost: x\r\n\r\n",
  "a target without a slash": "GET v1/health HTTP/1.1\r\nHost: x\r\n\r\n",
  "a target of 100,000 bytes": `GET /${"x".repeat(100_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
  "a method that is none": "G@T /v1/health HTTP/1.1\r\nHost: x\r\n\r\n",
  "a method of 100,000 bytes": `${"G".repeat(100_000)} /v1/health HTTP/1.1\r\nHost: x\r\n\r\n`,
  "a header without a colon": `${HEALTH}Host x\r\n\r\n`,
  "a header without a name": `${HEALTH}: x\r\n\r\n`,
  "a space in a name": `${HEALTH}Host: x\r\nX y: z\r\n\r\n`,
  "a space behind a name": `${READY}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
  "a byte above 0x7f in a name": `${HEALTH}Host: x\r\nX\xff: z\r\n\r\n`,
  "a folded value": `${HEALTH}Host: x\r\nX: a\r\n b\r\n\r\n`,
  "a carriage return in a value": `${HEALTH}Host: x\r\nX: a\rb\r\n\r\n`,
  "a NUL in a value": `${HEALTH}Host: x\r\nX: a\0b\r\n\r\n`,
  "two hosts": `${HEALTH}Host: x\r\nHost: y\r\n\r\n`,
  "129 headers": head(129),
  "5,000 headers": head(5000),
  "a header of 70,000 bytes": `${HEALTH}X: ${"y".repeat(300_000)}\r\n\r\n`,
  "a header of a million bytes": `${HEALTH}X: ${"y".repeat(1_000_000)}\r\n\r\n`,
  "70 headers of 1,000 bytes": head(70, 1000),
  "a negative length": `${READY}Content-Length: -1\r\n\r\n`,
  "a length with a sign": `${READY}Content-Length: +1\r\n\r\nx`,
  "a length in hexadecimal": `${READY}Content-Length: 0x1\r\n\r\nx`,
  "a length beyond 64 bits": `${READY}Content-Length: 99999999999999999999\r\n\r\n`,
  "two lengths": `${READY}Content-Length: 0\r\nContent-Length: 4\r\n\r\n${SMUGGLED}`,
  "a list of lengths": `${READY}Content-Length: 0, 4\r\n\r\n${SMUGGLED}`,
  "a length and chunks": both("Content-Length: 4\r\nTransfer-Encoding: chunked"),
  "chunks and a length": both("Transfer-Encoding: chunked\r\nContent-Length: 4"),
  "an encoding that is none": both("Transfer-Encoding: xchunked"),
  "another encoding": both("Transfer-Encoding: gzip"),
  "chunked twice": both("Transfer-Encoding: chunked, chunked"),
  "a body and a wish to upgrade":
    `${READY}Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 1\r\n\r\nx`,
  "an empty body and a wish to upgrade":
    `${READY}Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n`,
  "chunks and a wish to upgrade":
    `${READY}Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  "chunks in HTTP/1.0": `POST ${HOOK_PREFIX}/ready HTTP/1.0\r\n` +
    `Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
};

/** Heads that are served as any other, with what comes out. */
const SERVED: Readonly<Record<string, readonly [head: string, status: number]>> = {
  "128 headers": [head(128), 200],
  "a header of 60,000 bytes": [`${HEALTH}X: ${"y".repeat(60_000)}\r\n\r\n`, 200],
  "60 headers of 1,000 bytes": [head(60, 1000), 200],
  "no host": [`${HEALTH}\r\n`, 200],
  "the same length twice": [
    `${READY}Content-Length: 1\r\nContent-Length: 1\r\n\r\nx`,
    200,
  ],
  "bare line feeds": ["GET /v1/health HTTP/1.1\nHost: x\n\n", 200],
  "a method in lower case": ["get /v1/health HTTP/1.1\r\nHost: x\r\n\r\n", 405],
  "a host with a space": [`${HEALTH}Host: a b\r\n\r\n`, 400],
  "a host with a slash": [`${HEALTH}Host: a/b\r\n\r\n`, 400],
  "a star": ["OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404],
  "CONNECT": ["CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 404],
};

/** A head of `count` headers with values of `length` bytes. */
function head(count: number, length = 1): string {
  const header = (_: unknown, index: number): string => `A${index}: ${"v".repeat(length)}\r\n`;
  return `${HEALTH}${Array.from({ length: count }, header).join("")}\r\n`;
}

/** A body whose end depends on which of the two is believed, and a request hidden behind it. */
function both(framing: string): string {
  return `${READY}${framing}\r\n\r\n0\r\n\r\n${SMUGGLED}`;
}

withDaemonAsRoot.test("requests that are no HTTP are refused, and neither harm anybody nor leave anything", async ({ daemon, t }) => {
  const id = await daemon.exec(ECHO_LINES, { stdin: "piped" });
  const before = await Footprint.of(daemon);
  for (const [what, bytes] of Object.entries(REFUSED)) {
    await t.step(`${what}: a bare 400`, async () => {
      using connection = await daemon.connect();
      // It may say so, and close, before it has all.
      await connection.send(bytes).catch(() => {});
      const answer = await connection.response();
      deepStrictEqual([answer.status, header(answer, "service-version")], [400, undefined]);
      strictEqual(answer.body.length, 0);
      await connection.closedByPeer();
    });
  }
  for (const [what, [bytes, status]] of Object.entries(SERVED)) {
    await t.step(`${what}: ${status}`, async () => {
      using connection = await daemon.connect(bytes);
      const answer = await connection.response();
      strictEqual(answer.status, status);
      strictEqual(header(answer, "service-version"), daemon.document.daemon_version);
    });
  }
  await t.step("HTTP/2 without TLS is spoken, and a broken frame ends it", async () => {
    using connection = await daemon.connect("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    await connection.send("\xff".repeat(100));
    match(new TextDecoder("latin1").decode(await connection.more()), /^\0/);
    while ((await connection.more()).length > 0);
  });
  await t.step("nothing of it was carried out, and all is given back", async () => {
    await before.back();
    using connection = await daemon.connect();
    const { hooks } = JSON.parse(bodyText(await connection.ask("GET", "/v1/health")));
    const seen: string[] = hooks.map(({ hook }: { readonly hook: string }) => hook);
    deepStrictEqual(seen, ["run", "ready"]);
  });
  await daemon.stdin(id, "on\n", true);
  strictEqual((await daemon.outcome(id)).stdout, "ready\non\n");
});

withDaemonAsRoot.test("three hundred bad heads, fifty at a time, are refused as often and cost nothing", async ({ daemon }) => {
  const before = await Footprint.of(daemon);
  const bad = [`${HEALTH}X: ${"y".repeat(70_000)}\r\n\r\n`, head(129), "\0\0\0\0"];
  for (let times = 0; times < 6; times++) {
    await Promise.all(Array.from({ length: 50 }, async (_, index) => {
      using connection = await daemon.connect();
      await connection.send(bad[index % bad.length] ?? "").catch(() => {});
      strictEqual((await connection.response()).status, 400);
    }));
  }
  await before.back();
  await daemon.logWritten();
  ok(!daemon.log.lines.some(({ level }) => level === "error"), `${daemon.log}`);
  strictEqual((await daemon.fetch(execPath("nobody"))).status, 404);
});
