import type { StartRequest } from "../contract/exec.ts";
import { errnoText } from "../native/errno.ts";
import { SpawnError } from "../native/exec.ts";
import type { Spawn } from "../native/layout.ts";
import type { Environments, Variables } from "./environment.ts";
import { type PasswdLookup, primaryGid } from "./passwd.ts";

/** What Linux takes at most of arguments, variables and the pointers to them, whatever its limits, in bytes. */
const MAX_ARGUMENTS_BYTES = 6 * 1024 * 1024;
/** What each costs besides its text: a pointer and its end. */
const EACH_BYTES = 8 + 1;

/** Where a command's environment and identity come from, besides its request. */
export interface LaunchSources {
  /** Names let through from the daemon's own environment. */
  readonly inherit: readonly string[];
  /** The daemon's own environment. */
  readonly daemonEnv: (name: string) => string | undefined;
  /** Knows users by their id. */
  readonly passwd: PasswdLookup;
  /** The daemon's own user id. */
  readonly ownUid: number;
  /** What the run hook installed: the same object until it is another. */
  readonly baseEnvironment: () => Variables;
  /** Keeps what most commands get. */
  readonly environments: Environments;
}

/**
 * What the core is to start for a request. Throws {@link SpawnError} for what no kernel takes, before the request is
 * copied twice more for nothing.
 */
export function spawnOf(request: StartRequest, sources: LaunchSources): Spawn {
  const { inherit, daemonEnv, passwd, ownUid, baseEnvironment, environments } = sources;
  const { user, group } = request;
  if (leastBytes(request) > MAX_ARGUMENTS_BYTES) throw SpawnError.tooLong();
  const argv = request.shell ? ["/bin/sh", "-c", request.command[0] ?? ""] : request.command;
  return {
    argv,
    environment: environments.of({
      inherit,
      daemonEnv,
      passwd,
      uid: user ?? ownUid,
      base: baseEnvironment(),
      request: request.env,
    }),
    cwd: request.cwd,
    uid: user,
    gid: group ?? (user === null ? null : primaryGid(passwd, user)),
    stdin: request.stdin,
    reap: request.reap_group_on_exit,
    timeoutSecs: request.timeout_sec,
  };
}

/** The least that a request's arguments and variables take: a UTF-16 unit makes at least one byte. */
function leastBytes({ command, env }: StartRequest): number {
  let bytes = 0;
  for (const text of command) bytes += text.length + EACH_BYTES;
  for (const [name, value] of env) bytes += name.length + 1 + value.length + EACH_BYTES;
  return bytes;
}

/** A failed start in words that repeat nothing of the request. */
export function spawnFailure(error: unknown): string {
  if (!(error instanceof SpawnError)) return "cannot start: the daemon failed; its log says where";
  const cause = error.errno > 0 ? errnoText(error.errno) : `internal error ${error.errno}`;
  return `cannot ${error.step}: ${cause}`;
}
