import { deepStrictEqual, ok, strictEqual, throws } from "node:assert/strict";
import { decodeRunHook } from "../../src/contract/hooks.ts";
import { Mismatch } from "../../src/contract/schema.ts";

const KEY = new Uint8Array(32).fill(7).toBase64();
const OTHER = new Uint8Array(32).fill(9).toBase64();

function envelope(payload: unknown): Uint8Array {
  const runHookPayload = typeof payload === "string" ? payload : JSON.stringify(payload);
  return new TextEncoder().encode(JSON.stringify({ runHookPayload }));
}

/** The sentence of the mismatch that `body` is. */
function refusalOf(body: Uint8Array): string {
  let text = "";
  throws(() => decodeRunHook(body), (error) => {
    ok(error instanceof Mismatch, String(error));
    text = error.message;
    return true;
  });
  return text;
}

Deno.test("a payload gives its token and environment, unknown keys ignored", () => {
  deepStrictEqual(decodeRunHook(envelope({ agent_token: "t" })), {
    token: "t",
    env: new Map(),
    identity: null,
  });
  deepStrictEqual(
    decodeRunHook(
      envelope(
        '{"agent_token":"t\\u00e9","env":{"A":"1","__proto__":"p","":"e","B=":"\\u0000"},"x":null}',
      ),
    ),
    {
      token: "té",
      env: new Map([["A", "1"], ["__proto__", "p"], ["", "e"], ["B=", "\0"]]),
      identity: null,
    },
  );
});

Deno.test("identity keys come together, null standing for absent", () => {
  const decode = (keys: object): unknown =>
    decodeRunHook(envelope({ agent_token: "t", ...keys })).identity;
  strictEqual(decode({ identity_seed: null, identity_host_public_key: null }), null);
  strictEqual(decode({ identity_seed: null }), null);
  deepStrictEqual(decode({ identity_seed: KEY, identity_host_public_key: OTHER }), {
    seed: new Uint8Array(32).fill(7),
    hostPublicKey: new Uint8Array(32).fill(9),
  });
});

Deno.test("a malformed envelope is refused by what it lacks", () => {
  const cases: [body: string, start: string][] = [
    ["", "the body is not valid JSON"],
    ["S3CR3T", "the body is not valid JSON"],
    ["[]", "the body must be an object"],
    ["null", "the body must be an object"],
    ["{}", "runHookPayload is missing"],
    ['{"runHookPayload":null}', "runHookPayload is missing"],
    ['{"runHookPayload":{"agent_token":"S3CR3T"}}', "runHookPayload must be a string"],
    ['{"runHookPayload":1}', "runHookPayload must be a string"],
  ];
  for (const [body, start] of cases) {
    const text = refusalOf(new TextEncoder().encode(body));
    ok(text.startsWith(start), `${body}: ${text}`);
    ok(!text.includes("S3CR3T"), text);
  }
  ok(refusalOf(new Uint8Array([0xff])).startsWith("the body is not valid UTF-8"));
});

Deno.test("a malformed payload is refused by the key that is wrong, without any value", () => {
  const t = { agent_token: "t" };
  const short = new Uint8Array(31).fill(1).toBase64();
  const zero = new Uint8Array(32).toBase64();
  const cases: [payload: unknown, start: string][] = [
    ["", "runHookPayload is not valid JSON"],
    ["S3CR3T", "runHookPayload is not valid JSON"],
    ["[]", "runHookPayload must be an object"],
    ["null", "runHookPayload must be an object"],
    ['"S3CR3T"', "runHookPayload must be an object"],
    ["{}", "runHookPayload.agent_token is missing"],
    ['{"__proto__":{"agent_token":"S3CR3T"}}', "runHookPayload.agent_token is missing"],
    [{ agent_token: "" }, "runHookPayload.agent_token must be a non-empty string"],
    [{ agent_token: null }, "runHookPayload.agent_token must be"],
    [{ agent_token: 5 }, "runHookPayload.agent_token must be"],
    [{ agent_token: ["S3CR3T"] }, "runHookPayload.agent_token must be"],
    [{ ...t, env: null }, "runHookPayload.env must be an object"],
    [{ ...t, env: ["S3CR3T"] }, "runHookPayload.env must be an object"],
    [{ ...t, env: "S3CR3T" }, "runHookPayload.env must be an object"],
    [{ ...t, env: { A: 1 } }, "each value in runHookPayload.env must be a string"],
    [{ ...t, env: { A: "S3CR3T", B: null } }, "each value in runHookPayload.env must be a string"],
    [{ ...t, identity_seed: KEY }, "runHookPayload.identity_host_public_key is missing"],
    [{ ...t, identity_host_public_key: KEY }, "runHookPayload.identity_seed is missing"],
    [
      { ...t, identity_seed: 1, identity_host_public_key: KEY },
      "runHookPayload.identity_seed must",
    ],
    [
      { ...t, identity_seed: "S3CR3T", identity_host_public_key: KEY },
      "runHookPayload.identity_seed must be padded base64",
    ],
    [
      { ...t, identity_seed: short, identity_host_public_key: KEY },
      "runHookPayload.identity_seed must be 32 bytes",
    ],
    [
      { ...t, identity_seed: KEY, identity_host_public_key: zero },
      "runHookPayload.identity_host_public_key must not be all zero",
    ],
  ];
  for (const [payload, start] of cases) {
    const text = refusalOf(envelope(payload));
    ok(text.startsWith(start), `${JSON.stringify(payload)}: ${text}`);
    ok(!text.includes("S3CR3T"), text);
  }
});

Deno.test("a token that no header can carry is refused, and named without its value", () => {
  for (const token of [" S3CR3T", "S3CR3T\t", "S3\nCR3T", "S3CR3T\u0000", "S3CR3T\u007f"]) {
    throws(() => decodeRunHook(envelope({ agent_token: token })), (error: Error) => {
      return error.message.includes("agent_token") && !error.message.includes("S3CR3T");
    });
  }
  const lone = new TextEncoder().encode(
    String.raw`{"runHookPayload":"{\"agent_token\":\"\\ud800\"}"}`,
  );
  throws(() => decodeRunHook(lone), /agent_token/);
  strictEqual(decodeRunHook(envelope({ agent_token: "a b\tc, é" })).token, "a b\tc, é");
});
