import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { schemaDocument } from "../../src/contract/document.ts";
import { KillResponse, PollResponse, StartRequest, StdinRequest } from "../../src/contract/exec.ts";
import { RunHook } from "../../src/contract/hooks.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { BODY } from "../../src/contract/object.ts";
import { Mismatch, type Schema } from "../../src/contract/schema.ts";
import { ExitEvent, GapEvent, OutputEvent } from "../../src/contract/stream.ts";
import { Health, ProcsResponse } from "../../src/contract/system.ts";
import { Definitions, type JsonSchema } from "../support/json_schema.ts";

const { $defs } = schemaDocument({
  limits: DEFAULT_LIMITS,
  hookPrefix: "/h",
  versionHeader: "v",
});
// The bounds of a uint64 rounded, which does for what is tried here.
const definitions = new Definitions(JSON.parse(
  JSON.stringify($defs, (_, item) => typeof item === "bigint" ? Number(item) : item),
) as Record<string, JsonSchema>);

/** What the published schema says to `value`, read by a checker that knows nothing of the decoders. */
function publishedAccepts(name: string, value: unknown): boolean {
  return definitions.violations({ $ref: `#/$defs/${name}` }, value) === "";
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
  [StartRequest, start, true],
  [StartRequest, { ...start, future: 1 }, true],
  [StartRequest, { exec_id: "a" }, false],
  [StartRequest, { ...start, exec_id: "" }, false],
  [StartRequest, { ...start, command: "x" }, false],
  [StartRequest, { ...start, command: ["a\0"] }, false],
  [StartRequest, { ...start, cwd: null, user: null, group: null, timeout_sec: null }, true],
  [StartRequest, { ...start, cwd: "\0" }, false],
  [StartRequest, { ...start, env: { A: "1" } }, true],
  [StartRequest, { ...start, env: { "": "1" } }, false],
  [StartRequest, { ...start, env: { "A=": "1" } }, false],
  [StartRequest, { ...start, env: { A: 1 } }, false],
  [StartRequest, { ...start, env: null }, false],
  [StartRequest, { ...start, user: 4294967295 }, true],
  [StartRequest, { ...start, user: 4294967296 }, false],
  [StartRequest, { ...start, user: 0.5 }, false],
  [StartRequest, { ...start, timeout_sec: 1e308 }, true],
  [StartRequest, { ...start, timeout_sec: 0 }, false],
  [StartRequest, { ...start, shell: null }, false],
  [StartRequest, [], false],
  [StartRequest, null, false],
  [StdinRequest, {}, true],
  [StdinRequest, { data_b64: null, signal: null }, true],
  [StdinRequest, { signal: "eof" }, true],
  [StdinRequest, { signal: "term" }, false],
  [StdinRequest, { data_b64: 1 }, false],
  [PollResponse, { exec_id: "a", phase: "running" }, true],
  [PollResponse, poll, true],
  [PollResponse, { ...poll, exit_code: null, signal: 9 }, true],
  [PollResponse, { ...poll, phase: "other" }, false],
  [PollResponse, { ...poll, exit_code: 2147483648 }, false],
  [KillResponse, { exec_id: "a", killed: true }, true],
  [KillResponse, { exec_id: "a" }, false],
  [OutputEvent, { offset: 0, stream: "stdout", output: "" }, true],
  [OutputEvent, { offset: -1, stream: "stdout", output: "" }, false],
  [OutputEvent, { offset: 0, stream: "stdin", output: "" }, false],
  [GapEvent, { from: 0, to: 5 }, true],
  [GapEvent, { from: 0 }, false],
  [
    ExitEvent,
    { exit_code: null, signal: 9, truncated: false, writers_may_be_alive: true, offset: 3 },
    true,
  ],
  [ExitEvent, { exit_code: 0, truncated: false, writers_may_be_alive: true, offset: 3 }, false],
  [Health, health, true],
  [Health, { ...health, hooks: [hook], hooks_dropped: 5 }, true],
  [Health, { ...health, hooks: [{ ...hook, hook: "other" }] }, false],
  [
    Health,
    { ...health, disk: { available_bytes: 1, reserve_bytes: 0, under_pressure: false } },
    true,
  ],
  [Health, { ...health, disk: {} }, false],
  ...Object.keys(health).map((key): [Schema<unknown>, unknown, boolean] => [
    Health,
    Object.fromEntries(Object.entries(health).filter(([name]) => name !== key)),
    false,
  ]),
  [ProcsResponse, { procs: [proc, { ...proc, pgid: null, pids: [1, 2] }] }, true],
  [ProcsResponse, { procs: [{ ...proc, pids: [-1] }] }, false],
  [RunHook, { agent_token: "t" }, true],
  [RunHook, { agent_token: "t", env: { "": "1" }, identity_seed: null }, true],
  [RunHook, { agent_token: "" }, false],
  [RunHook, { agent_token: "t", env: { A: null } }, false],
];

Deno.test("what is published and what is accepted agree, judged by a checker of its own", () => {
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
  deepStrictEqual(KillResponse.decode({ exec_id: "a", killed: true, more: 1 }, BODY), {
    exec_id: "a",
    killed: true,
  });
});
