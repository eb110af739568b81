import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { decodeStart, decodeStdin } from "../../src/contract/exec.ts";
import { Mismatch } from "../../src/contract/schema.ts";

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

/** The sentence of the mismatch that `decode` throws. */
function detailOf(decode: () => unknown): string {
  try {
    decode();
  } catch (error) {
    ok(error instanceof Mismatch, String(error));
    return error.message;
  }
  throw new Error("Cannot see a mismatch: it was accepted");
}

Deno.test("a minimal start request gets the protocol's defaults", () => {
  deepStrictEqual(decodeStart(encode('{"exec_id":"a","command":["true"]}')), {
    exec_id: "a",
    command: ["true"],
    shell: false,
    cwd: null,
    env: new Map(),
    user: null,
    group: null,
    timeout_sec: null,
    stdin: false,
    reap_group_on_exit: false,
  });
});

Deno.test("a full start request is taken as it is, unknown fields and a BOM aside", () => {
  const request = decodeStart(encode(`\ufeff{
    "exec_id": "\\u0000\\u0001 \\ud83d\\ude00", "command": ["a", "", "\\u00e9"], "shell": false, "cwd": "/x",
    "env": {"A": "", "B": "=", "with space": "x"}, "user": 4294967295, "group": 0, "timeout_sec": 1e308,
    "stdin": true, "reap_group_on_exit": true, "future": {"deep": [null]}
  }`));
  deepStrictEqual(request, {
    exec_id: "\0\x01 😀",
    command: ["a", "", "é"],
    shell: false,
    cwd: "/x",
    env: new Map([["A", ""], ["B", "="], ["with space", "x"]]),
    user: 4294967295,
    group: 0,
    timeout_sec: 1e308,
    stdin: true,
    reap_group_on_exit: true,
  });
});

Deno.test("__proto__ is a name like any other", () => {
  const start = decodeStart(
    encode(
      '{"exec_id":"__proto__","command":["x"],"env":{"__proto__":"1"},"__proto__":{"stdin":true}}',
    ),
  );
  strictEqual(start.exec_id, "__proto__");
  strictEqual(start.env.get("__proto__"), "1");
  strictEqual(start.stdin, false);
  detailOf(() => decodeStart(encode('{"__proto__":{"exec_id":"a","command":["x"]}}')));
});

Deno.test("exec_id may take 1024 bytes of UTF-8", () => {
  for (const exec_id of ["x".repeat(1024), "é".repeat(512), "😀".repeat(256)]) {
    const body = encode(JSON.stringify({ exec_id, command: ["x"] }));
    strictEqual(decodeStart(body).exec_id, exec_id);
  }
  const long = encode(JSON.stringify({ exec_id: "😀".repeat(256) + "x", command: ["x"] }));
  ok(detailOf(() => decodeStart(long)).includes("1024"));
});

Deno.test("a stdin body gives its bytes, its end, both or neither", () => {
  const decode = (body: unknown): ReturnType<typeof decodeStdin> =>
    decodeStdin(encode(JSON.stringify(body)));
  deepStrictEqual(decode({}), { data: null, eof: false });
  deepStrictEqual(decode({ data_b64: null, signal: null }), { data: null, eof: false });
  deepStrictEqual(decode({ data_b64: "" }), { data: new Uint8Array(), eof: false });
  deepStrictEqual(decode({ signal: "eof" }), { data: null, eof: true });
  deepStrictEqual(decode({ data_b64: "AP8=", signal: "eof", other: 1 }), {
    data: new Uint8Array([0, 255]),
    eof: true,
  });
});
