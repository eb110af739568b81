import type { AgentToken } from "../../bootstrap/bootstrap.ts";
import type { HookLog } from "../../bootstrap/hook_log.ts";
import { type DocumentOptions, schemaDocument } from "../../contract/document.ts";
import { encodeJson } from "../../contract/json.ts";
import type { Health } from "../../contract/system.ts";
import { VERSION } from "../../contract/version.ts";
import type { Registry } from "../../exec/registry.ts";
import type { DiskGauge } from "../../guest/disk.ts";
import type { IdentityRepair } from "../../guest/identity.ts";
import type { Log } from "../../log.ts";
import { within } from "../../within.ts";
import { json } from "../respond.ts";
import type { Handlers } from "../router.ts";

/** How long health waits for a filesystem that hangs. */
const DISK_WAIT_MS = 1000;

/** What the system routes need. */
export interface SystemRoutesOptions {
  /** What the schema document publishes of the configuration. */
  readonly document: DocumentOptions;
  /** Tells whether it is installed. */
  readonly token: Pick<AgentToken, "installed">;
  /** Measures free space. */
  readonly gauge: Pick<DiskGauge, "measure">;
  /** The registered execs. */
  readonly registry: Pick<Registry, "count" | "procs">;
  /** The identity repair. */
  readonly identity: Pick<IdentityRepair, "state">;
  /** Observed hooks. */
  readonly hooks: Pick<HookLog, "entries" | "dropped">;
  /** Where failures are logged. */
  readonly log: Log;
}

/** The routes of health, schema and process accounting. */
export type SystemRoutes = Pick<Handlers, "health" | "schema" | "procs">;

/** Makes the handlers of health, schema and process accounting. */
export function systemRoutes(options: SystemRoutesOptions): SystemRoutes {
  const { token, gauge, registry, identity, hooks, log } = options;
  let document: string | undefined;

  /** Health is answered with what could be measured, whatever fails. */
  async function measured<T>(what: string, fallback: T, measure: () => T | Promise<T>): Promise<T> {
    try {
      return await measure();
    } catch (error) {
      const kind = error instanceof Error ? error.name : typeof error;
      log.error("health could not measure", { what, kind });
      return fallback;
    }
  }

  return {
    async health(): Promise<Response> {
      const disk = await measured("disk", null, () => within(DISK_WAIT_MS, gauge.measure(), null));
      const unknown = { degraded: true, repaired: false };
      const { degraded, repaired } = await measured("identity", unknown, () => identity.state);
      const { busy, count } = await measured(
        "execs",
        { busy: true, count: 0 },
        () => registry.count(),
      );
      const health: Health = {
        version: VERSION,
        bootstrapped: token.installed,
        disk,
        identity_degraded: degraded,
        identity_repaired: repaired,
        busy,
        execs: count,
        hooks: hooks.entries,
        hooks_dropped: hooks.dropped,
      };
      return json(200, health);
    },
    schema(): Response {
      document ??= encodeJson(schemaDocument(options.document));
      return new Response(document, { headers: { "content-type": "application/json" } });
    },
    async procs(): Promise<Response> {
      return json(200, { procs: await registry.procs() });
    },
  };
}
