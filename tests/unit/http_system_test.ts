import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { HookLog } from "../../src/bootstrap/hook_log.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { BODY } from "../../src/contract/object.ts";
import { Health, ProcsResponse } from "../../src/contract/system.ts";
import { VERSION } from "../../src/contract/version.ts";
import type { Call } from "../../src/http/router.ts";
import {
  type SystemRoutes,
  systemRoutes,
  type SystemRoutesOptions,
} from "../../src/http/routes/system.ts";
import { KeptLog } from "./http_fixture.ts";

const kept = new KeptLog();
// These handlers look at nothing of the call.
const call = {} as unknown as Call;

function routes(options: Partial<SystemRoutesOptions> = {}): SystemRoutes {
  return systemRoutes({
    document: { limits: DEFAULT_LIMITS, hookPrefix: "/h", versionHeader: "v" },
    token: { installed: true },
    gauge: {
      measure: () =>
        Promise.resolve({ available_bytes: 2n ** 63n, reserve_bytes: 5, under_pressure: true }),
    },
    registry: { count: () => ({ busy: true, count: 3 }), procs: () => Promise.resolve([]) },
    identity: { state: { degraded: true, repaired: true } },
    hooks: new HookLog(),
    log: kept.log,
    ...options,
  });
}

async function bodyOf(response: Response | Promise<Response>): Promise<string> {
  const { status, headers } = await response;
  strictEqual(status, 200);
  strictEqual(headers.get("content-type"), "application/json");
  return await (await response).text();
}

Deno.test("health has all nine fields", async () => {
  const hooks = new HookLog();
  for (let index = 0; index < 65; index++) hooks.record("resume", 5000);
  const body = await bodyOf(routes({ hooks }).health(call));
  ok(body.includes('"available_bytes":9223372036854775808'));
  const health = JSON.parse(body);
  Health.decode(health, BODY);
  deepStrictEqual(Object.keys(health), [
    "version",
    "bootstrapped",
    "disk",
    "identity_degraded",
    "identity_repaired",
    "busy",
    "execs",
    "hooks",
    "hooks_dropped",
  ]);
  deepStrictEqual([health.version, health.execs, health.hooks_dropped], [VERSION, 3, 1]);
  strictEqual(health.hooks.length, 64);
  deepStrictEqual(health.hooks[0], { hook: "resume", fired_at: 5 });
});

Deno.test("health is answered whatever fails", async () => {
  const fail = (): never => {
    throw new Error("S3CR3T");
  };
  const body = await bodyOf(
    routes({
      gauge: { measure: fail },
      registry: { count: fail, procs: fail },
      identity: {
        get state(): never {
          return fail();
        },
      },
    }).health(call),
  );
  const health = JSON.parse(body);
  Health.decode(health, BODY);
  strictEqual(health.disk, null);
  strictEqual(health.identity_degraded, true);
  ok(!JSON.stringify(kept.lines).includes("S3CR3T"));
});

Deno.test("health does not wait for a disk that hangs", async () => {
  const { promise, resolve } = Promise.withResolvers<null>();
  const body = await bodyOf(routes({ gauge: { measure: () => promise } }).health(call));
  strictEqual(JSON.parse(body).disk, null);
  resolve(null);
});

Deno.test("the schema is served as JSON and rendered once", async () => {
  const { schema } = routes();
  const first = await bodyOf(schema(call));
  strictEqual(JSON.parse(first).hook_prefix, "/h");
  strictEqual(await bodyOf(schema(call)), first);
});

Deno.test("procs are wrapped as they come", async () => {
  const group = {
    exec_id: "a",
    pgid: null,
    started_at: 2n ** 40n,
    child_exited: true,
    reap: false,
    pids: [1, 4294967295],
  };
  const registry = {
    count: () => ({ busy: false, count: 1 }),
    procs: () => Promise.resolve([group]),
  };
  const body = JSON.parse(await bodyOf(routes({ registry }).procs(call)));
  ProcsResponse.decode(body, BODY);
  deepStrictEqual(body, { procs: [{ ...group, started_at: 2 ** 40 }] });
});
