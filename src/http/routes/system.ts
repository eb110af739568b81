import { type DocumentOptions, schemaDocument } from "../../contract/document.ts";
import { encodeJson } from "../../contract/json.ts";
import type { DiskHealth, Health, HookObservation, ProcGroup } from "../../contract/system.ts";
import { VERSION } from "../../contract/version.ts";
import type { IdentityState } from "../../guest/identity.ts";
import type { Log } from "../../log.ts";
import { within } from "../../within.ts";
import { json } from "../respond.ts";
import type { Handlers } from "../router.ts";

/** How long health waits for a filesystem that hangs. */
const DISK_WAIT_MS = 1000;

/** What the registry says of its execs. */
export interface ExecCount {
  /** Whether one has not yet published its result. */
  readonly busy: boolean;
  /** How many there are in any phase. */
  readonly count: number;
}

/** Hook invocations as health reports them. */
export interface HookRecord {
  /** The first ones, oldest first. */
  readonly entries: readonly HookObservation[];
  /** How many were only counted. */
  readonly dropped: bigint;
}

/** What the system routes need. */
export interface SystemRoutesOptions {
  /** What the schema document publishes of the configuration. */
  readonly document: DocumentOptions;
  /** Whether a token is installed. */
  readonly bootstrapped: () => boolean;
  /** Free space; null where it cannot be measured. */
  readonly disk: () => Promise<DiskHealth | null>;
  /** Execs in the registry. */
  readonly execs: () => ExecCount;
  /** State of the identity repair. */
  readonly identity: () => IdentityState;
  /** Observed hooks. */
  readonly hooks: HookRecord;
  /** The groups of all execs, in the order of the registry. */
  readonly procs: () => readonly ProcGroup[] | Promise<readonly ProcGroup[]>;
  /** Where failures are logged. */
  readonly log: Log;
}

/** The routes of health, schema and process accounting. */
export type SystemRoutes = Pick<Handlers, "health" | "schema" | "procs">;

/** Makes the handlers of health, schema and process accounting. */
export function systemRoutes(options: SystemRoutesOptions): SystemRoutes {
  const { hooks, log } = options;
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
      const disk = await measured("disk", null, () => within(DISK_WAIT_MS, options.disk(), null));
      const identity = await measured(
        "identity",
        { degraded: true, repaired: false },
        options.identity,
      );
      const execs = await measured("execs", { busy: true, count: 0 }, options.execs);
      const health: Health = {
        version: VERSION,
        bootstrapped: options.bootstrapped(),
        disk,
        identity_degraded: identity.degraded,
        identity_repaired: identity.repaired,
        busy: execs.busy,
        execs: execs.count,
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
      return json(200, { procs: await options.procs() });
    },
  };
}
