import { HOOK_NAMES, type HookName } from "./hooks.ts";
import { bool, type Schema, text, uint32, type Uint64, uint64 } from "./schema.ts";
import { define, list, nullable, object, required } from "./schema_composite.ts";

/** Free space of the root file system. */
export interface DiskHealth {
  /** Bytes available to an unprivileged writer. */
  readonly available_bytes: Uint64;
  /** Bytes that must stay free; 0 disables the guard. */
  readonly reserve_bytes: Uint64;
  /** Whether a write to it would be refused right now. */
  readonly under_pressure: boolean;
}

/** One invocation of a hook. */
export interface HookObservation {
  /** Which hook. */
  readonly hook: HookName;
  /** Seconds since the epoch on the daemon's clock. */
  readonly fired_at: Uint64;
}

/** Answer to `GET /v1/health`. */
export interface Health {
  /** Daemon version. */
  readonly version: string;
  /** Whether a token is installed. */
  readonly bootstrapped: boolean;
  /** Null when free space could not be measured. */
  readonly disk: DiskHealth | null;
  /** Whether a step of the identity repair failed. */
  readonly identity_degraded: boolean;
  /** Whether the identity repair ran. */
  readonly identity_repaired: boolean;
  /** Whether an exec has not yet published its result. */
  readonly busy: boolean;
  /** Registered execs in any phase. */
  readonly execs: number;
  /** The first invocations of hooks, oldest first. */
  readonly hooks: readonly HookObservation[];
  /** Invocations that were only counted. */
  readonly hooks_dropped: Uint64;
}

/** A registered exec and what lives in its process group. */
export interface ProcGroup {
  /** Id of the exec. */
  readonly exec_id: string;
  /** Process group id; null when the child was gone before it could be read. */
  readonly pgid: number | null;
  /** Seconds since the epoch when the child was spawned. */
  readonly started_at: Uint64;
  /** Whether the child exited; an ack does not clear it. */
  readonly child_exited: boolean;
  /** Echo of `reap_group_on_exit`. */
  readonly reap: boolean;
  /** Live members of the group; zombies are not live. */
  readonly pids: readonly number[];
}

/** Answer to `GET /v1/procs`, in registry order. */
export interface ProcsResponse {
  /** One entry for each registered exec. */
  readonly procs: readonly ProcGroup[];
}

/** Schema of {@link DiskHealth}. */
export const DISK_HEALTH: Schema<DiskHealth> = define(
  "DiskHealth",
  "Free space of the root file system.",
  object<DiskHealth>({
    available_bytes: required(uint64(), "Bytes available to an unprivileged writer."),
    reserve_bytes: required(uint64(), "Bytes that must stay free; 0 disables the guard."),
    under_pressure: required(bool(), "Whether a write to it would be refused right now."),
  }),
);

/** Schema of {@link HookObservation}. */
export const HOOK_OBSERVATION: Schema<HookObservation> = define(
  "HookObservation",
  "One invocation of a hook, recorded before its body was read.",
  object<HookObservation>({
    hook: required(text({ choices: HOOK_NAMES }) as Schema<HookName>),
    fired_at: required(uint64(), "Seconds since the epoch on the daemon's clock."),
  }),
);

/** Schema of {@link Health}. */
export const HEALTH: Schema<Health> = define(
  "Health",
  "State of the daemon; all nine fields are always there.",
  object<Health>({
    version: required(text()),
    bootstrapped: required(bool(), "Whether a token is installed."),
    disk: required(nullable(DISK_HEALTH), "Null when free space could not be measured."),
    identity_degraded: required(bool(), "Whether a step of the identity repair failed."),
    identity_repaired: required(bool(), "False when the repair is switched off."),
    busy: required(bool(), "Whether a registered exec has not yet published its result."),
    execs: required(uint32(), "Registered execs in any phase."),
    hooks: required(list(HOOK_OBSERVATION), "The first 64 invocations, oldest first."),
    hooks_dropped: required(uint64(), "Invocations after those, only counted."),
  }),
);

/** Schema of {@link ProcGroup}. */
export const PROC_GROUP: Schema<ProcGroup> = define(
  "ProcGroup",
  "A registered exec and the live members of its process group.",
  object<ProcGroup>({
    exec_id: required(text()),
    pgid: required(nullable(uint32()), "Null when the child was gone before it could be read."),
    started_at: required(uint64(), "Seconds since the epoch when the child was spawned."),
    child_exited: required(bool(), "Whether the child exited; an ack does not clear it."),
    reap: required(bool(), "Echo of `reap_group_on_exit`."),
    pids: required(list(uint32()), "Live members of the group; zombies are not live."),
  }),
);

/** Schema of {@link ProcsResponse}. */
export const PROCS_RESPONSE: Schema<ProcsResponse> = define(
  "ProcsResponse",
  "One entry for each registered exec in any phase, in the order of the registry.",
  object<ProcsResponse>({ procs: required(list(PROC_GROUP)) }),
);
