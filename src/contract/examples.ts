import type { RouteName } from "./rows.ts";
import type { JsonObject, JsonValue } from "./schema.ts";

/** A request to a route and the body of its answer. Those of one exec follow on each other. */
export interface RouteExample {
  /** The parameters of the query. */
  readonly query?: Readonly<Record<string, string>>;
  /** The body of the request: a value where it is JSON, else what stands for the bytes. */
  readonly request?: JsonValue;
  /** The body of the answer, likewise. */
  readonly response?: JsonValue;
}

/** The exec of the examples. */
export const EXAMPLE_ID = "job-1";

const OUTCOME: JsonObject = {
  exit_code: 0,
  signal: null,
  stdout: "hello\n",
  stderr: "",
  truncated: false,
  writers_may_be_alive: false,
};

const EVENTS = [
  'event: gap\ndata: {"from":0,"to":1048576}\n\n',
  'event: output\ndata: {"offset":1048576,"stream":"stdout","output":"aGVsbG8K"}\n\n',
  'event: exit\ndata: {"exit_code":0,"signal":null,"truncated":false,' +
  '"writers_may_be_alive":false,"offset":1048582}\n\n',
].join("");

/** An example of each route. */
export const EXAMPLES: Readonly<Record<RouteName, RouteExample>> = {
  ready: {},
  validate: {},
  run: {
    request: { runHookPayload: '{"agent_token":"<agent_token>","env":{"LANG":"C.UTF-8"}}' },
  },
  suspend: {},
  resume: {},
  terminate: {},
  exec_start: {
    request: { exec_id: EXAMPLE_ID, command: ["cat"], stdin: true, timeout_sec: 60 },
    response: { exec_id: EXAMPLE_ID, phase: "running" },
  },
  exec_poll: { response: { exec_id: EXAMPLE_ID, phase: "exited", ...OUTCOME } },
  exec_stream: { query: { offset: "0" }, response: EVENTS },
  exec_stdin: {
    request: { data_b64: "aGVsbG8K", signal: "eof" },
    response: { exec_id: EXAMPLE_ID, written: 6, eof: true },
  },
  exec_ack: { response: { exec_id: EXAMPLE_ID, phase: "acked", ...OUTCOME } },
  exec_kill: { response: { exec_id: EXAMPLE_ID, killed: true } },
  procs: {
    response: {
      procs: [{
        exec_id: EXAMPLE_ID,
        pgid: 4711,
        started_at: 1_767_225_600,
        child_exited: false,
        reap: false,
        pids: [4711],
      }],
    },
  },
  tcp: { query: { port: "8080" } },
  file_read: {
    query: { path: "/tmp/greeting", start_line: "1", end_line: "1" },
    response: "hello\n",
  },
  file_write: { query: { path: "/tmp/greeting", mode: "0644" }, request: "hello\n" },
  tar_read: { query: { path: "/tmp/tree" } },
  tar_write: { query: { path: "/tmp/tree" } },
  health: {
    response: {
      version: "0.1.0",
      bootstrapped: true,
      disk: { available_bytes: 2_147_483_648, reserve_bytes: 67_108_864, under_pressure: false },
      identity_degraded: false,
      identity_repaired: true,
      busy: false,
      execs: 1,
      hooks: [{ hook: "run", fired_at: 1_767_225_600 }],
      hooks_dropped: 0,
    },
  },
  schema: {},
};
