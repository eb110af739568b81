import type { Bootstrap } from "../../bootstrap/bootstrap.ts";
import type { HookLog } from "../../bootstrap/hook_log.ts";
import { type DecodedRunHook, decodeRunHook, type HookName } from "../../contract/hooks.ts";
import type { Log } from "../../log.ts";
import type { Bodies } from "../body.ts";
import { BodyLost } from "../framing.ts";
import { TOO_MANY } from "../hook_bodies.ts";
import { empty, text } from "../respond.ts";
import { type Call, type Handler, type Handlers, reasonOf } from "../router.ts";

/** What the hooks need. A callback that fails is logged and changes no answer. */
export interface HookRoutesOptions {
  /** Where the run hook's content goes. */
  readonly bootstrap: Bootstrap;
  /** Where every invocation is recorded, before anything else. */
  readonly hookLog: HookLog;
  /** Where failures are logged. */
  readonly log: Log;
  /** Reads the run hook's body. */
  readonly bodies: Bodies;
  /** Runs after the token was installed, in the same turn, and before the answer. */
  readonly onInstalled?: (hook: DecodedRunHook) => void | Promise<void>;
  /** Runs when the VM is about to be frozen. */
  readonly onSuspend?: () => void;
  /** Runs when the VM was restored. */
  readonly onResume?: () => void;
  /** Begins the shutdown; runs once the answer was sent. */
  readonly terminate: () => void;
}

/** The six lifecycle hooks. */
export type HookRoutes = Pick<Handlers, HookName>;

/** Makes the handlers of the lifecycle hooks. */
export function hookRoutes(options: HookRoutesOptions): HookRoutes {
  const { bootstrap, hookLog, log, bodies } = options;

  async function guarded(hook: HookName, act: () => void | Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      log.error("a hook failed", {
        hook,
        kind: error instanceof Error ? error.name : typeof error,
      });
    }
  }

  function simple(hook: HookName, act: (call: Call) => void): Handler {
    return async (call) => {
      await guarded(hook, () => {
        hookLog.record(hook);
        log.info("hook", { hook });
        act(call);
      });
      return empty();
    };
  }

  async function decoded({ request, visit }: Call): Promise<DecodedRunHook> {
    try {
      using body = await bodies.runHook(request, visit.peer);
      return body.decoded(decodeRunHook);
    } catch (error) {
      // Of those that never came whole there may be thousands, and nobody ever meant them to.
      const level = error instanceof BodyLost ? "debug" : "info";
      log[level]("hook", { hook: "run", outcome: "malformed", reason: reasonOf(error) });
      throw error;
    }
  }

  async function run(call: Call): Promise<Response> {
    const hook = await decoded(call);
    try {
      const outcome = bootstrap.install(hook);
      log.info("hook", { hook: "run", outcome });
      if (outcome === "refused") return text(409, "another token is installed");
      if (outcome === "installed") await guarded("run", () => options.onInstalled?.(hook));
      return empty();
    } finally {
      hook.identity?.seed.fill(0);
    }
  }

  return {
    ready: simple("ready", () => {}),
    validate: simple("validate", () => {}),
    suspend: simple("suspend", () => options.onSuspend?.()),
    resume: simple("resume", () => {
      if (!bootstrap.token.installed) log.warn("resumed without an installed token");
      options.onResume?.();
    }),
    terminate: simple("terminate", (call) => {
      // Also when the client is gone: it asked.
      const begin = (): Promise<void> => guarded("terminate", options.terminate);
      call.info.completed.then(begin, begin);
    }),
    run(call: Call): Response | Promise<Response> {
      hookLog.record("run");
      const { visit } = call;
      if (!bodies.hasHooksOf(visit.peer)) return run(call);
      visit.flood();
      return text(400, TOO_MANY);
    },
  };
}
