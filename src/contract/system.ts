import { HOOK_NAMES } from "./hooks.ts";
import { list, nullable, object } from "./object.ts";
import { bool, choice, text, uint32, uint64 } from "./schema.ts";

/** Free space of the root file system. */
export class DiskHealth extends object({
  /** Bytes available to an unprivileged writer. */
  available_bytes: uint64(),
  /** Bytes that must stay free; 0 disables the guard. */
  reserve_bytes: uint64(),
  /** Whether a write to it would be refused right now. */
  under_pressure: bool(),
}) {}

/** One invocation of a hook, recorded before its body was read. */
export class HookObservation extends object({
  /** Which hook. */
  hook: choice(HOOK_NAMES),
  /** Seconds since the epoch on the daemon's clock. */
  fired_at: uint64(),
}) {}

/** State of the daemon; all nine fields are always there. */
export class Health extends object({
  /** Version of the daemon. */
  version: text(),
  /** Whether a token is installed. */
  bootstrapped: bool(),
  /** Null when free space could not be measured. */
  disk: nullable(DiskHealth),
  /** Whether a step of the identity repair failed. */
  identity_degraded: bool(),
  /** Whether the identity repair ran: false when it is switched off. */
  identity_repaired: bool(),
  /** Whether a registered exec has not yet published its result. */
  busy: bool(),
  /** Registered execs in any phase. */
  execs: uint32(),
  /** The first 64 invocations of hooks, oldest first. */
  hooks: list(HookObservation),
  /** Invocations after those, only counted. */
  hooks_dropped: uint64(),
}) {}

/** A registered exec and the live members of its process group. */
export class ProcGroup extends object({
  /** Id of the exec. */
  exec_id: text(),
  /** Process group id; null when the child was gone before it could be read. */
  pgid: nullable(uint32()),
  /** Seconds since the epoch when the child was spawned. */
  started_at: uint64(),
  /** Whether the child exited; an ack does not clear it. */
  child_exited: bool(),
  /** Echo of `reap_group_on_exit`. */
  reap: bool(),
  /** Live members of the group; zombies are not live. */
  pids: list(uint32()),
}) {}

/** The registered execs and what lives in their groups. */
export class ProcsResponse extends object({
  /** One entry for each registered exec in any phase, in the order of the registry. */
  procs: list(ProcGroup),
}) {}
