import { deepStrictEqual, strictEqual, throws } from "node:assert/strict";
import { decodeRunHook } from "../../src/contract/hooks.ts";

const KEY = new Uint8Array(32).fill(7).toBase64();
const OTHER = new Uint8Array(32).fill(9).toBase64();

function envelope(payload: unknown): Uint8Array {
  const runHookPayload = typeof payload === "string" ? payload : JSON.stringify(payload);
  return new TextEncoder().encode(JSON.stringify({ runHookPayload }));
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
