import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { Check } from "typebox/schema";
import { schemaDocument } from "../../src/contract/document.ts";
import {
  KILL_RESPONSE,
  type KillResponse,
  POLL_RESPONSE,
  type PollResponse,
  START_REQUEST,
  type StartRequest,
  STDIN_REQUEST,
  type StdinRequest,
} from "../../src/contract/exec.ts";
import { RUN_HOOK } from "../../src/contract/hooks.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { BODY } from "../../src/contract/schema_composite.ts";
import { Mismatch, type Schema } from "../../src/contract/schema.ts";
import { EXIT_EVENT, GAP_EVENT, OUTPUT_EVENT } from "../../src/contract/stream.ts";
import { HEALTH, type Health, PROCS_RESPONSE } from "../../src/contract/system.ts";

/** Compiles only if the types are the same, readonly aside. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true
  : false;
type Described<S> = S extends Schema<infer T> ? T : never;

const ties: [
  Same<Described<typeof START_REQUEST>, StartRequest>,
  Same<Described<typeof STDIN_REQUEST>, StdinRequest>,
  Same<Described<typeof POLL_RESPONSE>, PollResponse>,
  Same<Described<typeof KILL_RESPONSE>, KillResponse>,
  Same<Described<typeof HEALTH>, Health>,
] = [true, true, true, true, true];

Deno.test("interfaces and schemas describe the same types", () => {
  ok(ties.every((tied) => tied));
});

const { $defs } = schemaDocument({
  limits: DEFAULT_LIMITS,
  hookPrefix: "/h",
  versionHeader: "v",
});
// The validator takes no bigint as a bound, and the rounded one does for what is tried here.
const definitions = JSON.parse(
  JSON.stringify($defs, (_, item) => typeof item === "bigint" ? Number(item) : item),
);

/** What a foreign validator makes of `value` by the published schema. */
function publishedAccepts(name: string, value: unknown): boolean {
  return Check({ $defs: definitions, $ref: `#/$defs/${name}` }, value);
}

function decodes(schema: Schema<unknown>, value: unknown): boolean {
  try {
    schema.decode(value, BODY);
    return true;
  } catch (error) {
    ok(error instanceof Mismatch);
    return false;
  }
}

const start = { exec_id: "a", command: ["x"] };
const outcome = {
  exit_code: 0,
  signal: null,
  stdout: "",
  stderr: "",
  truncated: false,
  writers_may_be_alive: false,
};
const poll = { exec_id: "a", phase: "exited", ...outcome };
const health = {
  version: "1",
  bootstrapped: true,
  disk: null,
  identity_degraded: false,
  identity_repaired: false,
  busy: false,
  execs: 0,
  hooks: [],
  hooks_dropped: 0,
};
const hook = { hook: "run", fired_at: 1 };
const proc = { exec_id: "a", pgid: 1, started_at: 1, child_exited: false, reap: false, pids: [] };

const CASES: [schema: Schema<unknown>, value: unknown, valid: boolean][] = [
  [START_REQUEST, start, true],
  [START_REQUEST, { ...start, future: 1 }, true],
  [START_REQUEST, { exec_id: "a" }, false],
  [START_REQUEST, { ...start, exec_id: "" }, false],
  [START_REQUEST, { ...start, command: "x" }, false],
  [START_REQUEST, { ...start, command: ["a\0"] }, false],
  [START_REQUEST, { ...start, cwd: null, user: null, group: null, timeout_sec: null }, true],
  [START_REQUEST, { ...start, cwd: "\0" }, false],
  [START_REQUEST, { ...start, env: { A: "1" } }, true],
  [START_REQUEST, { ...start, env: { "": "1" } }, false],
  [START_REQUEST, { ...start, env: { "A=": "1" } }, false],
  [START_REQUEST, { ...start, env: { A: 1 } }, false],
  [START_REQUEST, { ...start, env: null }, false],
  [START_REQUEST, { ...start, user: 4294967295 }, true],
  [START_REQUEST, { ...start, user: 4294967296 }, false],
  [START_REQUEST, { ...start, user: 0.5 }, false],
  [START_REQUEST, { ...start, timeout_sec: 1e308 }, true],
  [START_REQUEST, { ...start, timeout_sec: 0 }, false],
  [START_REQUEST, { ...start, shell: null }, false],
  [START_REQUEST, [], false],
  [START_REQUEST, null, false],
  [STDIN_REQUEST, {}, true],
  [STDIN_REQUEST, { data_b64: null, signal: null }, true],
  [STDIN_REQUEST, { signal: "eof" }, true],
  [STDIN_REQUEST, { signal: "term" }, false],
  [STDIN_REQUEST, { data_b64: 1 }, false],
  [POLL_RESPONSE, { exec_id: "a", phase: "running" }, true],
  [POLL_RESPONSE, poll, true],
  [POLL_RESPONSE, { ...poll, exit_code: null, signal: 9 }, true],
  [POLL_RESPONSE, { ...poll, phase: "other" }, false],
  [POLL_RESPONSE, { ...poll, exit_code: 2147483648 }, false],
  [KILL_RESPONSE, { exec_id: "a", killed: true }, true],
  [KILL_RESPONSE, { exec_id: "a" }, false],
  [OUTPUT_EVENT, { offset: 0, stream: "stdout", output: "" }, true],
  [OUTPUT_EVENT, { offset: -1, stream: "stdout", output: "" }, false],
  [OUTPUT_EVENT, { offset: 0, stream: "stdin", output: "" }, false],
  [GAP_EVENT, { from: 0, to: 5 }, true],
  [GAP_EVENT, { from: 0 }, false],
  [
    EXIT_EVENT,
    { exit_code: null, signal: 9, truncated: false, writers_may_be_alive: true, offset: 3 },
    true,
  ],
  [EXIT_EVENT, { exit_code: 0, truncated: false, writers_may_be_alive: true, offset: 3 }, false],
  [HEALTH, health, true],
  [HEALTH, { ...health, hooks: [hook], hooks_dropped: 5 }, true],
  [HEALTH, { ...health, hooks: [{ ...hook, hook: "other" }] }, false],
  [
    HEALTH,
    { ...health, disk: { available_bytes: 1, reserve_bytes: 0, under_pressure: false } },
    true,
  ],
  [HEALTH, { ...health, disk: {} }, false],
  ...Object.keys(health).map((key): [Schema<unknown>, unknown, boolean] => [
    HEALTH,
    Object.fromEntries(Object.entries(health).filter(([name]) => name !== key)),
    false,
  ]),
  [PROCS_RESPONSE, { procs: [proc, { ...proc, pgid: null, pids: [1, 2] }] }, true],
  [PROCS_RESPONSE, { procs: [{ ...proc, pids: [-1] }] }, false],
  [RUN_HOOK, { agent_token: "t" }, true],
  [RUN_HOOK, { agent_token: "t", env: { "": "1" }, identity_seed: null }, true],
  [RUN_HOOK, { agent_token: "" }, false],
  [RUN_HOOK, { agent_token: "t", env: { A: null } }, false],
];

Deno.test("what is published and what is accepted agree, judged by a foreign validator", () => {
  for (const [schema, value, valid] of CASES) {
    const shown = `${schema.name} ${JSON.stringify(value)}`;
    strictEqual(decodes(schema, value), valid, `decoder: ${shown}`);
    strictEqual(publishedAccepts(schema.name ?? "", value), valid, `published: ${shown}`);
  }
});

Deno.test("what only the published schema can say of a combination of fields holds too", () => {
  strictEqual(publishedAccepts("StartRequest", { exec_id: "a", command: [] }), false);
  strictEqual(publishedAccepts("StartRequest", { exec_id: "a", command: [], shell: true }), true);
  const two = { exec_id: "a", command: ["x", "y"] };
  strictEqual(publishedAccepts("StartRequest", two), true);
  strictEqual(publishedAccepts("StartRequest", { ...two, shell: true }), false);
  const { stdout: _, ...partial } = poll;
  strictEqual(publishedAccepts("PollResponse", partial), false);
});

Deno.test("a decoded object has its own fields only", () => {
  deepStrictEqual(KILL_RESPONSE.decode({ exec_id: "a", killed: true, more: 1 }, BODY), {
    exec_id: "a",
    killed: true,
  });
});
