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

Deno.test("null stands for the default only where the protocol says so", () => {
  const nulls =
    '{"exec_id":"a","command":["x"],"cwd":null,"user":null,"group":null,"timeout_sec":null}';
  strictEqual(decodeStart(encode(nulls)).user, null);
  for (const field of ["exec_id", "command", "shell", "env", "stdin", "reap_group_on_exit"]) {
    const body = { exec_id: "a", command: ["x"], [field]: null };
    ok(detailOf(() => decodeStart(encode(JSON.stringify(body)))).startsWith(`${field} must be`));
  }
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

Deno.test("a script is one string; no command is the empty script", () => {
  const decode = (command: string, shell: boolean): readonly string[] =>
    decodeStart(encode(`{"exec_id":"a","command":${command},"shell":${shell}}`)).command;
  deepStrictEqual(decode("[]", true), []);
  deepStrictEqual(decode('["a b"]', true), ["a b"]);
  ok(detailOf(() => decode('["a","b"]', true)).startsWith("command "));
  ok(detailOf(() => decode("[]", false)).startsWith("command "));
});

Deno.test("every malformed start body is refused with the field and the kind, and nothing of its values", () => {
  const SECRET = "S3CR3T";
  const cases: [fields: string, field: string][] = [
    ['"command":["x"]', "exec_id"],
    ['"exec_id":"a"', "command"],
    ['"exec_id":"","command":["x"]', "exec_id"],
    [`"exec_id":"${"x".repeat(1025)}","command":["x"]`, "exec_id"],
    [`"exec_id":"${"é".repeat(513)}","command":["x"]`, "exec_id"],
    ['"exec_id":"\\ud800","command":["x"]', "exec_id"],
    ['"exec_id":1,"command":["x"]', "exec_id"],
    [`"exec_id":"a","command":"${SECRET}"`, "command"],
    ['"exec_id":"a","command":{}', "command"],
    [`"exec_id":"a","command":["${SECRET}",1]`, "command[1]"],
    [`"exec_id":"a","command":["${SECRET}\\u0000"]`, "command[0]"],
    [`"exec_id":"a","command":["${SECRET}\\udfff"]`, "command[0]"],
    [`"exec_id":"a","command":["x"],"shell":"${SECRET}"`, "shell"],
    ['"exec_id":"a","command":["x"],"shell":1', "shell"],
    [`"exec_id":"a","command":["x"],"cwd":"${SECRET}\\u0000"`, "cwd"],
    ['"exec_id":"a","command":["x"],"cwd":"\\ud800"', "cwd"],
    ['"exec_id":"a","command":["x"],"cwd":[]', "cwd"],
    [`"exec_id":"a","command":["x"],"env":["${SECRET}"]`, "env"],
    [`"exec_id":"a","command":["x"],"env":{"A":["${SECRET}"]}`, "each value in env"],
    ['"exec_id":"a","command":["x"],"env":{"A":null}', "each value in env"],
    [`"exec_id":"a","command":["x"],"env":{"A":"${SECRET}\\u0000"}`, "each value in env"],
    ['"exec_id":"a","command":["x"],"env":{"A":"\\udc00"}', "each value in env"],
    [`"exec_id":"a","command":["x"],"env":{"${SECRET}=":"x"}`, "each name in env"],
    [`"exec_id":"a","command":["x"],"env":{"${SECRET}\\u0000":"x"}`, "each name in env"],
    ['"exec_id":"a","command":["x"],"env":{"\\ud800":"x"}', "each name in env"],
    ['"exec_id":"a","command":["x"],"env":{"":"x"}', "each name in env"],
    ['"exec_id":"a","command":["x"],"user":-1', "user"],
    ['"exec_id":"a","command":["x"],"user":4294967296', "user"],
    ['"exec_id":"a","command":["x"],"user":1.5', "user"],
    ['"exec_id":"a","command":["x"],"user":"0"', "user"],
    ['"exec_id":"a","command":["x"],"group":1e30', "group"],
    ['"exec_id":"a","command":["x"],"timeout_sec":0', "timeout_sec"],
    ['"exec_id":"a","command":["x"],"timeout_sec":-0.0', "timeout_sec"],
    ['"exec_id":"a","command":["x"],"timeout_sec":-1', "timeout_sec"],
    ['"exec_id":"a","command":["x"],"timeout_sec":1e999', "timeout_sec"],
    ['"exec_id":"a","command":["x"],"timeout_sec":"1"', "timeout_sec"],
    ['"exec_id":"a","command":["x"],"stdin":0', "stdin"],
    ['"exec_id":"a","command":["x"],"reap_group_on_exit":"x"', "reap_group_on_exit"],
  ];
  for (const [fields, field] of cases) {
    const detail = detailOf(() => decodeStart(encode(`{${fields}}`)));
    ok(detail.startsWith(`${field} `), `${fields}: ${detail}`);
    ok(!detail.includes(SECRET), detail);
  }
});

Deno.test("exec_id may take 1024 bytes of UTF-8", () => {
  for (const exec_id of ["x".repeat(1024), "é".repeat(512), "😀".repeat(256)]) {
    const body = encode(JSON.stringify({ exec_id, command: ["x"] }));
    strictEqual(decodeStart(body).exec_id, exec_id);
  }
  const long = encode(JSON.stringify({ exec_id: "😀".repeat(256) + "x", command: ["x"] }));
  ok(detailOf(() => decodeStart(long)).includes("1024"));
});

Deno.test("what is no JSON object is refused without V8's message", () => {
  const bodies: Uint8Array[] = [
    ...["", "S3CR3T", "{", "[]", "null", '"S3CR3T"', "1", '{"a":S3CR3T}'].map(encode),
    new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]),
    new Uint8Array([0x22, 0xed, 0xa0, 0x80, 0x22]),
    encode("[".repeat(1_000_000)),
    encode("[".repeat(1_000_000) + "]".repeat(1_000_000)),
  ];
  for (const body of bodies) {
    for (const decode of [decodeStart, decodeStdin]) {
      const detail = detailOf(() => decode(body));
      ok(detail.startsWith("the body "), detail);
      ok(!detail.includes("S3CR3T"), detail);
    }
  }
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

Deno.test("base64 is standard, padded and without white space", () => {
  for (
    const data_b64 of [
      "QQ",
      "QQ=",
      "QQ==\n",
      "Q Q==",
      "\tQQ==",
      "-_-_",
      "QR==",
      "QQ==QQ==",
      "=",
      "é",
    ]
  ) {
    const detail = detailOf(() => decodeStdin(encode(JSON.stringify({ data_b64 }))));
    ok(detail.startsWith("data_b64 "), `${JSON.stringify(data_b64)}: ${detail}`);
  }
  strictEqual(decodeStdin(encode('{"data_b64":"+/+/"}')).data?.length, 3);
});

Deno.test("a stdin signal is eof or nothing", () => {
  for (const signal of ["EOF", "", "term", 1, true, {}]) {
    ok(detailOf(() => decodeStdin(encode(JSON.stringify({ signal })))).startsWith("signal "));
  }
  ok(detailOf(() => decodeStdin(encode('{"data_b64":1}'))).startsWith("data_b64 "));
});
