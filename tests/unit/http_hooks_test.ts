import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { Bootstrap } from "../../src/bootstrap/bootstrap.ts";
import { HookLog } from "../../src/bootstrap/hook_log.ts";
import {
  type HookRoutes,
  hookRoutes,
  type HookRoutesOptions,
} from "../../src/http/routes/hooks.ts";
import { RawConnection, type RawResponse } from "../support/raw_http.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { Bodies } from "../../src/http/body.ts";
import { KeptLog, PREFIX, RouterFixture } from "./http_fixture.ts";

class Hooks implements AsyncDisposable {
  readonly kept: KeptLog = new KeptLog();
  readonly bootstrap: Bootstrap = new Bootstrap(this.kept.log);
  readonly hookLog: HookLog = new HookLog();
  readonly fixture: RouterFixture;

  constructor(callbacks: Partial<HookRoutesOptions> = {}) {
    const routes: HookRoutes = hookRoutes({
      bootstrap: this.bootstrap,
      hookLog: this.hookLog,
      log: this.kept.log,
      bodies: new Bodies(DEFAULT_LIMITS, 10_000),
      terminate: () => {},
      ...callbacks,
    });
    this.fixture = new RouterFixture({ handlers: routes });
  }

  async post(hook: string, body = ""): Promise<RawResponse> {
    using connection = await RawConnection.open(this.fixture.port);
    return await connection.ask("POST", `${PREFIX}/${hook}`, [], body);
  }

  async run(payload: unknown): Promise<RawResponse> {
    return await this.post("run", JSON.stringify({ runHookPayload: JSON.stringify(payload) }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.fixture[Symbol.asyncDispose]();
  }
}

Deno.test("an invocation before the epoch is dated by the epoch", () => {
  const hookLog = new HookLog();
  hookLog.record("run", -5000);
  deepStrictEqual(hookLog.entries, [{ hook: "run", fired_at: 0 }]);
});

const fail = (): never => {
  throw new Error("S3CR3T");
};

Deno.test("the simple hooks answer 200 whatever fails behind them", async () => {
  await using hooks = new Hooks({ onSuspend: fail, onResume: fail, terminate: fail });
  for (const hook of ["suspend", "resume", "terminate"]) {
    strictEqual((await hooks.post(hook)).status, 200);
  }
  const errors = hooks.kept.lines.filter(({ level }) => level === "error");
  deepStrictEqual(errors.map(({ hook, kind }) => [hook, kind]), [
    ["suspend", "Error"],
    ["resume", "Error"],
    ["terminate", "Error"],
  ]);
  ok(!JSON.stringify(hooks.kept.lines).includes("S3CR3T"));
});

Deno.test("the answer to the run hook waits for what the installation starts, and does not depend on it", async () => {
  const began = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  await using hooks = new Hooks({
    onInstalled: async () => {
      began.resolve();
      await end.promise;
      fail();
    },
  });
  let answered = false;
  const answer = hooks.run({ agent_token: "t" }).finally(() => answered = true);
  await began.promise;
  // Two whole answers later this one would be here too.
  await hooks.post("ready");
  await hooks.post("ready");
  strictEqual(answered, false);
  end.resolve();
  strictEqual((await answer).status, 200);
  strictEqual(hooks.bootstrap.token.installed, true);
});
