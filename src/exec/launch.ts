import type { StartRequest } from "../contract/exec.ts";
import { errnoText } from "../native/errno.ts";
import { SpawnError } from "../native/exec.ts";
import type { Spawn } from "../native/layout.ts";
import { Environments, type EnvironmentSources } from "./environment.ts";
import { type PasswdLookup, primaryGid } from "./passwd.ts";

/** What Linux takes at most of arguments, variables and the pointers to them, whatever its limits, in bytes. */
const MAX_ARGUMENTS_BYTES = 6 * 1024 * 1024;
/** What each costs besides its text: a pointer and its end. */
const EACH_BYTES = 8 + 1;

/** What is added to a request before the core can start it. */
export interface LaunchSources extends EnvironmentSources {
  /** The daemon's own user id. */
  readonly ownUid: number;
}

/** Makes of requests what the core is to start. */
export class Launch {
  readonly #passwd: PasswdLookup;
  readonly #ownUid: number;
  readonly #environments: Environments;

  /** Takes the sources of environments and identities. */
  constructor(sources: LaunchSources) {
    this.#passwd = sources.passwd;
    this.#ownUid = sources.ownUid;
    this.#environments = new Environments(sources);
  }

  /** Throws {@link SpawnError} for what no kernel takes, before the request is copied twice more for nothing. */
  of(request: StartRequest): Spawn {
    const { user, group, shell, command } = request;
    if (leastBytes(request) > MAX_ARGUMENTS_BYTES) throw SpawnError.tooLong();
    return {
      argv: shell ? ["/bin/sh", "-c", command[0] ?? ""] : command,
      environment: this.#environments.of(user ?? this.#ownUid, request.env),
      cwd: request.cwd,
      uid: user,
      gid: group ?? (user === null ? null : primaryGid(this.#passwd, user)),
      stdin: request.stdin,
      reap: request.reap_group_on_exit,
      timeoutSecs: request.timeout_sec,
    };
  }
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
