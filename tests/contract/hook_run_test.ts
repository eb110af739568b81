import { deepStrictEqual, doesNotMatch, match, strictEqual } from "node:assert/strict";
import { plain, text } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon, HOOK_PREFIX } from "../support/daemon.ts";
import { bodyText, request } from "../support/raw_http.ts";
import { withStarted } from "../support/with_daemon.ts";

const payload = (content: unknown): { runHookPayload: string } => ({
  runHookPayload: typeof content === "string" ? content : JSON.stringify(content),
});

const SECRET = "s3cret-value";
const KEY = new Uint8Array(32).fill(7).toBase64();

/** A payload that is fine but for these. */
const spoilt = (more: object): unknown => payload({ agent_token: SECRET, ...more });
const [seed, host] = ["identity_seed", "identity_host_public_key"] as const;

/** What is refused, and the key or shape that the answer has to name. */
const REFUSED: readonly [what: string, body: unknown, names: RegExp][] = [
  ["no body", undefined, /body/],
  ["an empty body", "", /body/],
  ["no JSON", `{"runHookPayload": ${SECRET}`, /body/],
  ["a body that is no object", JSON.stringify([SECRET]), /body must be an object/],
  ["bytes that are not UTF-8", Uint8Array.of(0x22, 0xff, 0x22), /body/],
  ["no payload", {}, /runHookPayload/],
  ["a null payload", { runHookPayload: null }, /runHookPayload/],
  ["a payload that is no string", { runHookPayload: { agent_token: SECRET } }, /runHookPayload/],
  ["a payload that is no JSON", payload(`{"agent_token": ${SECRET}`), /runHookPayload/],
  ["an empty payload", payload(""), /runHookPayload/],
  ["a payload that is an array", payload([SECRET]), /runHookPayload must be an object/],
  ["a payload that is null", payload(null), /runHookPayload must be an object/],
  ["a payload that is a string", payload(JSON.stringify(SECRET)), /runHookPayload/],
  ["no token", payload({ env: { A: SECRET } }), /agent_token/],
  ["a token of a prototype", payload(`{"__proto__":{"agent_token":"${SECRET}"}}`), /agent_token/],
  ["a null token", payload({ agent_token: null }), /agent_token/],
  ["a number as token", payload({ agent_token: 12345678 }), /agent_token/],
  ["an empty token", payload({ agent_token: "" }), /agent_token/],
  ...[` ${SECRET}`, `${SECRET}\t`, `s3\n${SECRET}`, `${SECRET}\0`, `${SECRET}\x7f`, "\ud800"]
    .map((agent_token): [string, unknown, RegExp] => [
      "a token that no header can carry",
      payload({ agent_token }),
      /agent_token/,
    ]),
  ["a list as env", spoilt({ env: [SECRET] }), /env/],
  ["a string as env", spoilt({ env: SECRET }), /env/],
  ["a null env", spoilt({ env: null }), /env/],
  ["a number in env", spoilt({ env: { A: 12345678 } }), /value in .*env/],
  ["null in env", spoilt({ env: { A: null } }), /value in .*env/],
  ["a list in env", spoilt({ env: { A: [SECRET] } }), /value in .*env/],
  ["one identity key", spoilt({ identity_seed: KEY }), /host_public_key/],
  ["the other identity key", spoilt({ [host]: KEY }), /identity_seed/],
  ["a short seed", spoilt({ [seed]: "AAAA", [host]: KEY }), /identity_seed/],
  [
    "a zero key",
    spoilt({ [seed]: KEY, [host]: new Uint8Array(32).toBase64() }),
    /identity_host_public_key/,
  ],
  ["no base64", spoilt({ [seed]: "*".repeat(44), [host]: KEY }), /identity_seed/],
  ["a body above 64 KiB", payload({ agent_token: SECRET.repeat(6000) }), /64 KiB/],
];

withStarted.test("a bad run hook is 400 with one line that names key or shape and quotes no value", async ({ daemon }) => {
  for (const [what, body, names] of REFUSED) {
    const line = await plain(await daemon.hook("run", body), 400);
    match(line, names, what);
    doesNotMatch(line, /s3cret|12345678|BwcHBwc/, what);
  }
  const health = await daemon.guest.health();
  strictEqual(health.bootstrapped, false);
  strictEqual(health.hooks.length, REFUSED.length);
  await daemon.logWritten();
  doesNotMatch(daemon.log.toString(), /s3cret|12345678/);
});

withStarted.test("the first valid run hook installs its token, and nothing of it is ever told", async ({ daemon }) => {
  strictEqual((await daemon.fetch("/v1/procs", bearer(SECRET))).status, 503);
  const hook = payload({
    agent_token: SECRET,
    env: { API_KEY: "env-v4lue" },
    [seed]: null,
    more: 1,
  });
  strictEqual(await text(await daemon.hook("run", hook)), "");
  strictEqual((await daemon.guest.health()).bootstrapped, true);
  strictEqual((await daemon.fetch("/v1/procs", bearer(SECRET))).status, 200);
  daemon.token = SECRET;
  const id = await daemon.exec("echo $API_KEY; env");
  const { stdout } = await daemon.outcome(id);
  match(stdout, /^env-v4lue$/m);
  doesNotMatch(stdout, /s3cret/);
  strictEqual(await daemon.stop(), 0);
  await daemon.log.ended;
  doesNotMatch(daemon.log.toString(), /s3cret|env-v4lue/);
});

withStarted.test("after the install the same token is 200, another 409 and a malformed hook 400, and none changes anything", async ({ daemon }) => {
  await daemon.bootstrap("token", { env: { WHO: "first" } });
  await daemon.bootstrap("token", { env: { WHO: "second", MORE: "x" } });
  strictEqual((await daemon.outcome(await daemon.exec("echo $WHO$MORE"))).stdout, "first\n");
  const hook = payload({ agent_token: SECRET, env: { WHO: "second" } });
  doesNotMatch(await plain(await daemon.hook("run", hook), 409), /s3cret/);
  strictEqual((await daemon.fetch("/v1/procs", bearer(SECRET))).status, 401);
  await plain(await daemon.hook("run", payload({ agent_token: "" })), 400);
  strictEqual((await daemon.outcome(await daemon.exec("echo $WHO"))).stdout, "first\n");
});

withStarted.test("of many different tokens at once exactly one is installed", async ({ daemon }) => {
  const tokens = Array.from({ length: 20 }, (_, index) => `token-${index}`);
  const statuses = await Promise.all(
    tokens.map(async (agent_token) => (await daemon.hook("run", payload({ agent_token }))).status),
  );
  deepStrictEqual(statuses.toSorted(), [200, ...Array(19).fill(409)]);
  const winner = tokens[statuses.indexOf(200)] ?? "";
  strictEqual((await daemon.fetch("/v1/procs", bearer(winner))).status, 200);
});

Deno.test("a token of any characters works, as the UTF-8 bytes of its string", async () => {
  for (
    const token of ["schlüssel 🔑", "a b  c", "a b\tc, é", "x".repeat(4000), "~!@#$%^&*()_+:,;=/?"]
  ) {
    await using daemon = await Daemon.start();
    await text(await daemon.hook("run", payload({ agent_token: token })));
    const bytes = Array.from(new TextEncoder().encode(token), (byte) => String.fromCharCode(byte));
    using connection = await daemon.connect();
    const authorization = `Bearer ${bytes.join("")}`;
    const answer = await connection.ask("GET", "/v1/procs", [["Authorization", authorization]]);
    deepStrictEqual([answer.status, bodyText(answer)], [200, '{"procs":[]}']);
  }
});

withStarted.test("a base environment's odd names are dropped with a warning that names them", async ({ daemon }) => {
  await daemon.bootstrap("t", {
    env: {
      "": "a",
      "A=B": "v4lue",
      "N\0": "v4lue",
      GOOD: "good=",
      EMPTY: "",
      ["__proto__"]: "p",
      BAD: "x\0y",
      "\ud800": "v4lue",
      WORSE: "v4lue\udfff",
    },
  });
  const { stdout } = await daemon.outcome(await daemon.exec("env"));
  for (const line of [/^GOOD=good=$/m, /^EMPTY=$/m, /^__proto__=p$/m]) match(stdout, line);
  doesNotMatch(stdout, /v4lue|BAD|WORSE/);
  await daemon.logWritten();
  const dropped = daemon.log.lines.filter(({ msg }) => msg.startsWith("dropped a variable"));
  deepStrictEqual(dropped.map(({ name }) => name), ["", "A=B", "N\0", "BAD", "\ud800", "WORSE"]);
  strictEqual(dropped.every(({ level }) => level === "warn"), true);
  doesNotMatch(daemon.log.toString(), /v4lue/);
});

withStarted.test("a refused run hook and one whose body never comes are recorded", async ({ daemon }) => {
  await daemon.hook("run", "{}");
  using _connection = await daemon.connect(
    request("POST", `${HOOK_PREFIX}/run`, [["Content-Length", "100"]]),
  );
  const hooks = await eventually("the second hook", async () => {
    const seen = (await daemon.guest.health()).hooks;
    return seen.length === 2 && seen;
  });
  deepStrictEqual(hooks.map(({ hook }) => hook), ["run", "run"]);
});

function bearer(token: string): RequestInit {
  return { headers: { authorization: `Bearer ${token}` } };
}
