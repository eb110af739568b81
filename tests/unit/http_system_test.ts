import { ok, strictEqual } from "node:assert/strict";
import { HookLog } from "../../src/bootstrap/hook_log.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { BODY } from "../../src/contract/object.ts";
import { Health } from "../../src/contract/system.ts";
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
