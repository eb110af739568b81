import { deepStrictEqual, match, ok, strictEqual, throws } from "node:assert/strict";
import { decodeRunHook } from "../../src/contract/hooks.ts";
import { PlainRefusal } from "../../src/contract/refusal.ts";

const KEY = new Uint8Array(32).fill(7).toBase64();
const OTHER = new Uint8Array(32).fill(9).toBase64();

function envelope(payload: unknown): Uint8Array {
  const runHookPayload = typeof payload === "string" ? payload : JSON.stringify(payload);
  return new TextEncoder().encode(JSON.stringify({ runHookPayload }));
}

/** The text of the refusal that `body` gets. */
function refusalOf(body: Uint8Array): string {
  let text = "";
  throws(() => decodeRunHook(body), (error) => {
    ok(error instanceof PlainRefusal, String(error));
    strictEqual(error.status, 400);
    text = error.text;
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

Deno.test("a seed is the same however the body spells it", () => {
  const seed = Uint8Array.from({ length: 32 }, (_, index) => 255 - index).toBase64();
  ok(seed.includes("/"));
  const payload = JSON.stringify({
    env: { identity_seed: "not this one", "\u00e9\\": '}"' },
    agent_token: "t",
    identity_seed: seed,
    identity_host_public_key: OTHER,
  });
  const outer = (text: string): string => `{"a":[{"runHookPayload":1}],"runHookPayload":${text}}`;
  const plain = JSON.stringify(payload);
  const spellings: Record<string, string> = {
    "as JSON.stringify does": outer(plain),
    "with blanks": outer(plain).replaceAll(":", " : ").replaceAll("{", "{ "),
    "with slashes escaped within": outer(JSON.stringify(payload.replaceAll("/", "\\/"))),
    "with slashes escaped outside": outer(plain.replaceAll("/", "\\/")),
    "with ASCII as numbers": outer(plain.replaceAll("t", "\\u0074")),
    "with a letter beyond ASCII as a number": outer(plain.replaceAll("\u00e9", "\\u00e9")),
    "with its key as numbers": outer(plain.replace(',\\"identity_s', ',\\"identity_\\\\u0073')),
    "with the envelope's key as numbers": outer(plain).replace('],"run', '],"\\u0072un'),
    "given twice": outer(JSON.stringify(payload.replace("{", `{"identity_seed":"${KEY}",`))),
    "given twice, once as numbers": outer(
      JSON.stringify(
        payload.replace(',"identity_s', `,"identity_seed":"${KEY}","identity_\\u0073`),
      ),
    ),
  };
  for (const [name, body] of Object.entries(spellings)) {
    const { identity, env } = decodeRunHook(new TextEncoder().encode(body));
    strictEqual(identity?.seed.toBase64(), seed, name);
    strictEqual(env.get("identity_seed"), "not this one", name);
  }
});

Deno.test("what is no seed is refused alike, whether or not it could be taken out", () => {
  const keys = { agent_token: "t", identity_host_public_key: OTHER };
  const zeros = new Uint8Array(32).toBase64();
  match(refusalOf(envelope({ ...keys, identity_seed: zeros })), /identity_seed.*zero/);
  // The last digit says more than 32 bytes have.
  match(refusalOf(envelope({ ...keys, identity_seed: KEY.replace(/.=$/, "d=") })), /identity_seed/);
  match(
    refusalOf(envelope({ agent_token: "t", identity_seed: KEY })),
    /host_public_key is missing/,
  );
  match(refusalOf(envelope({ ...keys, identity_seed: KEY, agent_token: 1 })), /agent_token/);
  const body = new TextDecoder().decode(envelope({ ...keys, identity_seed: KEY }));
  strictEqual(refusalOf(new TextEncoder().encode(body + "x")), "the body is not valid JSON");
  strictEqual(
    refusalOf(new TextEncoder().encode(body.replace('}"}', '}]"}'))),
    "runHookPayload is not valid JSON",
  );
});
