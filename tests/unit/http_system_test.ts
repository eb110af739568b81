import { ok, strictEqual } from "node:assert/strict";
import { HookLog } from "../../src/bootstrap/hook_log.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { BODY } from "../../src/contract/object.ts";
import { Health } from "../../src/contract/system.ts";
import type { Call } from "../../src/http/router.ts";
import { systemRoutes } from "../../src/http/routes/system.ts";
import { KeptLog } from "./http_fixture.ts";

Deno.test("health is answered whatever fails", async () => {
  const kept = new KeptLog();
  const fail = (): never => {
    throw new Error("S3CR3T");
  };
  const routes = systemRoutes({
    document: { limits: DEFAULT_LIMITS, hookPrefix: "/h", versionHeader: "v" },
    token: { installed: true },
    gauge: { measure: fail },
    registry: { count: fail, procs: fail },
    identity: {
      get state(): never {
        return fail();
      },
    },
    hooks: new HookLog(),
    log: kept.log,
  });
  // It looks at nothing of the call.
  const response = await routes.health({} as unknown as Call);
  strictEqual(response.status, 200);
  strictEqual(response.headers.get("content-type"), "application/json");
  const health = await response.json();
  Health.decode(health, BODY);
  strictEqual(health.disk, null);
  strictEqual(health.identity_degraded, true);
  ok(!JSON.stringify(kept.lines).includes("S3CR3T"));
});
