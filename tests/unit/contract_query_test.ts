import { ok, strictEqual, throws } from "node:assert/strict";
import { decodeFileReadQuery, decodeFsQuery, parseMode } from "../../src/contract/files.ts";
import { decodeQuery } from "../../src/contract/object.ts";
import { Mismatch } from "../../src/contract/schema.ts";
import { StreamQuery } from "../../src/contract/stream.ts";
import { Query } from "../../src/http/target.ts";

const U64 = "18446744073709551615";

function refused(decode: (query: Query) => unknown, raw: string, name: string): void {
  throws(
    () => decode(new Query(raw)),
    (error) => error instanceof Mismatch && error.message.startsWith(`query parameter ${name} `),
    raw,
  );
}

const decodeStreamQuery = (query: Query): StreamQuery => decodeQuery(StreamQuery, query);

Deno.test("a stream's offset is a decimal uint64, exact, null when missing", () => {
  const offset = (raw: string): bigint | null => decodeStreamQuery(new Query(raw)).offset;
  strictEqual(offset(""), null);
  strictEqual(offset("other=1&x"), null);
  strictEqual(offset(`offset=${U64}`), 2n ** 64n - 1n);
  strictEqual(offset("offset=9007199254740993"), 9007199254740993n);
  strictEqual(offset(`offset=${"0".repeat(60_000)}7`), 7n);
  strictEqual(offset("offset=1&offset=x"), 1n);
  strictEqual(offset("%6Fffset=%31"), 1n);
  for (
    const value of [
      "",
      "-1",
      "+1",
      "1.0",
      "1e3",
      "0x1",
      " 1",
      "1+",
      "null",
      "18446744073709551616",
      "9".repeat(60_000),
      "%31%",
      "%FF",
      "٣",
      "1_000",
    ]
  ) refused(decodeStreamQuery, `offset=${value}`, "offset");
  refused(decodeStreamQuery, "offset", "offset");
  refused(decodeStreamQuery, "offset=&offset=1", "offset");
});

Deno.test("a path is form-urlencoded UTF-8, not empty, without NUL", () => {
  const path = (raw: string): string => decodeFsQuery(new Query(raw)).path;
  strictEqual(path("path=/a+b%2Bc"), "/a b+c");
  strictEqual(path("path=%2Fx%26y%3Dz=w"), "/x&y=z=w");
  strictEqual(path("&&x=%FF&path=%C3%A9&path=other"), "é");
  strictEqual(path("pa%74h=é"), "é");
  for (
    const raw of ["", "Path=/x", "path", "path=", "path=%", "path=%zz", "path=%FF", "path=a%00b"]
  ) {
    refused(decodeFsQuery, raw, "path");
    refused(decodeFileReadQuery, raw, "path");
  }
});

Deno.test("the mode of a write is taken as text, and parsed as octal where it counts", () => {
  strictEqual(decodeFsQuery(new Query("path=x")).mode, null);
  strictEqual(decodeFsQuery(new Query("path=x&mode=zz")).mode, "zz");
  const modes: [string, number][] = [
    ["0644", 0o644],
    ["644", 0o644],
    ["0o755", 0o755],
    ["7777", 0o7777],
    ["07777", 0o7777],
    ["0", 0],
    ["00", 0],
  ];
  for (const [text, mode] of modes) strictEqual(parseMode(text), mode, text);
  for (const text of ["", "8", "77777", "0o", "0x1", "-1", "644 ", "rwx", "0O7"]) {
    throws(() => parseMode(text), (error) => error instanceof Mismatch);
  }
});

Deno.test("a value that does not decode matters only where it is asked for", () => {
  const query = new Query("%=1&bad=%FF&good=1");
  strictEqual(query.text("good"), "1");
  throws(() => query.text("bad"), { name: "Mismatch" });
  ok(query.text("missing") === undefined);
});
