import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import fc from "fast-check";
import { ROWS, servedPath } from "../../src/contract/rows.ts";
import { cutTarget, Query, Roster } from "../../src/http/target.ts";
import { bodyText, RawConnection } from "../support/raw_http.ts";
import { runs } from "../support/property.ts";
import { PREFIX, RouterFixture, TOKEN } from "../unit/http_fixture.ts";

const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 })
  .filter((text) => text.isWellFormed());
/** Which bytes of an encoded text are escaped though they need not be. */
const coins = fc.array(fc.boolean(), { minLength: 1, maxLength: 7 });

/** UTF-8, escaped where it must be and where `coins` says so. */
function escaped(text: string, bare: RegExp, coins: readonly boolean[]): string {
  return Array.from(new TextEncoder().encode(text), (byte, at) => {
    const char = String.fromCharCode(byte);
    if (byte < 0x80 && bare.test(char) && coins[at % coins.length] !== true) return char;
    const digits = byte.toString(16).padStart(2, "0");
    return `%${coins[(at + 1) % coins.length] === true ? digits.toUpperCase() : digits}`;
  }).join("");
}

/** What may stand in a target: visible ASCII. */
const targetChar = fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code));
const targetPart = fc.oneof(
  fc.constantFrom("/", "//", ".", "..", "%", "%2F", "%2e%2e", "?", "#", "v1", "exec", "x", "start"),
  fc.constantFrom("stream", "kill", "fs", "file", "tcp", "health", "\\", ";", "@", ":"),
  targetChar,
);

Deno.test("an id comes through a path as it was, however it is escaped", async () => {
  await using fixture = new RouterFixture();
  using connection = await RawConnection.open(fixture.port);
  await fc.assert(
    fc.asyncProperty(text, coins, async (id, coins) => {
      const path = `/v1/exec/${escaped(id, /[A-Za-z0-9\-._~!$&'()*+,;=:@]/, coins)}`;
      const answer = await connection.ask("GET", path, [["Authorization", `Bearer ${TOKEN}`]]);
      strictEqual(bodyText(answer), `exec_poll ${JSON.stringify(id)}\n`);
    }),
    runs(400),
  );
});

Deno.test("any target is answered by the row that its raw segments name, or by none", async () => {
  await using fixture = new RouterFixture();
  const roster = new Roster(PREFIX);
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom("", "/v1", "/v1/exec", PREFIX),
      fc.array(targetPart, { maxLength: 8 }),
      async (start, parts) => {
        const target = `${start}/${parts.join("")}`;
        const [path = ""] = target.split("?");
        // By segments, as nothing in the daemon does it.
        const segments = path.split("/");
        const rows = ROWS.filter((row) => {
          const pattern = servedPath(row, PREFIX).split("/");
          return pattern.length === segments.length &&
            pattern.every((part, at) =>
              part === "{id}" ? segments[at] !== "" : part === segments[at]
            );
        });
        deepStrictEqual(
          new Set(roster.find(path).map(({ row }) => row.name)),
          new Set(rows.map(({ name }) => name)),
        );
        using connection = await RawConnection.open(fixture.port);
        const authorization = ["Authorization", `Bearer ${TOKEN}`] as const;
        const answer = await connection.ask("GET", target, [authorization]);
        const row = rows.find(({ method }) => method === "GET");
        strictEqual(answer.status, rows.length === 0 ? 404 : row === undefined ? 405 : 200);
        if (row !== undefined) ok(bodyText(answer).startsWith(`${row.name} `));
      },
    ),
    runs(400),
  );
});

Deno.test("a target is cut at its authority and its first question mark, and nothing of it is lost", () => {
  const path = fc.array(targetPart, { maxLength: 8 }).map((parts) => `/${parts.join("")}`);
  fc.assert(
    fc.property(fc.constantFrom("127.0.0.1:9", "x", "[::1]:80", null), path, (host, target) => {
      const cut = cutTarget(`http://${host ?? "0.0.0.0"}${target}`, host);
      ok(cut !== undefined);
      const question = target.includes("?") ? "?" : "";
      strictEqual(`${cut.path}${question}${cut.query}`, target);
      ok(!cut.path.includes("?"));
    }),
    runs(2000),
  );
});

Deno.test("a query gives each name its first value, however both are escaped", () => {
  const bare = /[A-Za-z0-9\-._~!$'()*,;:@/?]/;
  fc.assert(
    fc.property(fc.array(fc.tuple(text, text, coins), { maxLength: 5 }), (pairs) => {
      const raw = pairs.map(([name, value, coins]) =>
        `${escaped(name, bare, coins)}=${escaped(value, bare, coins).replaceAll("%20", "+")}`
      ).join("&");
      const query = new Query(raw);
      for (const [name] of pairs) {
        strictEqual(query.text(name), pairs.find(([other]) => other === name)?.[1]);
      }
    }),
    runs(2000),
  );
});

Deno.test("of any Authorization header none but the token's opens the gate", async () => {
  await using fixture = new RouterFixture();
  const byte = fc.oneof(
    fc.integer({ min: 0x21, max: 0x7e }),
    fc.integer({ min: 0x80, max: 0xff }),
    fc.constantFrom(0x20, 0x09),
  ).map((code) => String.fromCharCode(code));
  const near = fc.constantFrom("Bearer", "bearer", "BEARER", "Basic", "Bear er", "");
  const token = fc.oneof(
    fc.constantFrom(TOKEN, TOKEN.slice(1), `${TOKEN}x`, TOKEN.toUpperCase(), ` ${TOKEN}`),
    fc.array(byte, { maxLength: 20 }).map((bytes) => bytes.join("")),
  );
  using connection = await RawConnection.open(fixture.port);
  await fc.assert(
    fc.asyncProperty(near, token, async (scheme, token) => {
      const value = `${scheme} ${token}`;
      const answer = await connection.ask("GET", "/v1/procs", [["Authorization", value]]);
      // Blanks around a value are not part of it.
      const trimmed = value.replace(/^[ \t]+|[ \t]+$/g, "");
      const opens = /^bearer /i.test(trimmed) && trimmed.slice(7) === TOKEN;
      strictEqual(answer.status, opens ? 200 : 401, value);
    }),
    runs(400),
  );
});
