/**
 * What a command is started with. Its environment is made of layers, from lowest to highest:
 *
 * 1. what the operator lets through of the daemon's own environment, by name;
 * 2. defaults, only for names still unset: PATH, and HOME, USER, LOGNAME, SHELL of the user in force;
 * 3. the base environment that the run hook brought;
 * 4. the request's own.
 *
 * Nothing else: what the daemon happens to have in its environment is no business of a command. Names live in Maps,
 * since `__proto__` is a name like any other.
 *
 * @module
 */

import { StartRequest } from "../contract/exec.ts";
import { cut, quoted } from "../contract/refusal.ts";
import type { Core } from "../native/core.ts";
import { errnoText } from "../native/errno.ts";
import {
  digestOf,
  type EncodedTexts,
  encodeEnvironment,
  type Spawn,
  SpawnError,
  SpawnStep,
} from "../native/exec.ts";
import { type PasswdEntry, type PasswdLookup, primaryGid } from "./passwd.ts";

/** What Linux takes at most of arguments, variables and the pointers to them, whatever its limits, in bytes. */
const MAX_ARGUMENTS_BYTES = 6 * 1024 * 1024;
/** What each costs besides its text: a pointer and its end. */
const EACH_BYTES = 8 + 1;

/** What runs scripts. */
export const SHELL = "/bin/sh";

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
      argv: shell ? [SHELL, "-c", command[0] ?? ""] : command,
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

/** What the log says of a start. */
export interface StartNote {
  /** Its id. */
  readonly exec_id?: string;
  /** Its program without arguments. */
  readonly program?: string;
}

/** The note on a start's body, of which nothing is known yet: what is not there is left out. */
export function startNote(body: unknown): StartNote {
  if (typeof body !== "object" || body === null) return {};
  const { exec_id, command, shell } = body as Partial<Record<keyof StartRequest, unknown>>;
  // Where it is not sure that this is no script, or it is none that could be started, nothing is told of it.
  const isList = (shell === undefined || shell === false) && Array.isArray(command);
  const program: unknown = shell === true ? SHELL : isList ? command[0] : null;
  const isText = typeof program === "string" && !program.includes("\0");
  return {
    ...(typeof exec_id === "string" ? { exec_id: cut(exec_id) } : {}),
    // What is behind white space was meant for an argument.
    ...(isText ? { program: cut(/^\S*/.exec(program)?.[0] ?? "") } : {}),
  };
}

/** The fields of a start but for its id. */
const FIELDS = StartRequest.fields.filter((name) => name !== "exec_id") as (keyof StartRequest)[];

/**
 * Digests of the fields of a start, in the order of {@link FIELDS}: they tell whether a retried start asks for the same,
 * and keep nothing of the request, whose arguments and variables may be secrets.
 */
export type Fingerprint = Uint32Array;

/** The fingerprint of a start. What is false, null or empty has a digest of 0. */
export function fingerprintOf(core: Core, request: StartRequest): Fingerprint {
  const digests = new Uint32Array(FIELDS.length);
  for (const [index, name] of FIELDS.entries()) {
    const value = request[name];
    if (value === null || value === false) continue;
    // The order of variables does not count.
    const parts = value instanceof Map ? [...value].sort(byName) : value;
    if (Array.isArray(parts) && parts.length === 0) continue;
    digests[index] = digestOf(core, JSON.stringify(parts));
  }
  return digests;
}

function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1;
}

/** The names of the fields in which two starts differ, joined by commas; empty for the same start. */
export function difference(first: Fingerprint, second: Fingerprint): string {
  return FIELDS.filter((_, index) => first[index] !== second[index]).join(", ");
}

/** A failed start in words. */
export interface SpawnFailure {
  /** Words that repeat nothing of the request. */
  readonly reason: string;
  /** The same for the client, naming what of the request cannot be used. */
  readonly detail: string;
}

/** Why the start of `request` failed. */
export function spawnFailure(
  error: unknown,
  { command, shell, cwd }: StartRequest,
): SpawnFailure {
  if (!(error instanceof SpawnError)) {
    const reason = "cannot start: the daemon failed; its log says where";
    return { reason, detail: reason };
  }
  const { step, what, errno } = error;
  const cause = errno > 0 ? errnoText(errno) : `internal error ${errno}`;
  const [program = "", ...rest] = shell ? [SHELL] : command;
  const named = step === SpawnStep.enter ? cwd : step === SpawnStep.execute ? program : null;
  const isLine = step === SpawnStep.execute && rest.length === 0 && /\s/.test(program);
  const hint = isLine
    ? '; command is a list of arguments: a line for a shell needs "shell": true'
    : "";
  return {
    reason: `cannot ${what}: ${cause}`,
    detail: `cannot ${what}${named === null ? "" : ` ${quoted(named)}`}: ${cause}${hint}`,
  };
}

/** Where a program is looked for when nobody says otherwise. */
export const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Variables by their names. */
export type Variables = ReadonlyMap<string, string>;

/** Where the environments of all commands come from, but for what each request adds. */
export interface EnvironmentSources {
  /** Names the operator lets through from the daemon's own environment. */
  readonly inherit: readonly string[];
  /** Reads the daemon's own environment, which never changes; undefined where a name is unset. */
  readonly daemonEnv: (name: string) => string | undefined;
  /** Knows users by their id. */
  readonly passwd: PasswdLookup;
  /** Has what the run hook installed: the same object until it is another. */
  readonly base: { readonly environment: Variables };
}

/** The environment of a command of user `uid` whose request adds `request`. The result is new. */
export function childEnvironment(
  { inherit, daemonEnv, passwd, base }: EnvironmentSources,
  uid: number,
  request: Variables,
): Map<string, string> {
  const environment = inherited(inherit, daemonEnv);
  for (const [name, value] of defaults(passwd.entry(uid))) {
    if (!environment.has(name)) environment.set(name, value);
  }
  for (const layer of [base.environment, request]) {
    for (const [name, value] of layer) environment.set(name, value);
  }
  return environment;
}

/**
 * The environments of commands, encoded. Most ask for nothing of their own, and one after the other gets the same.
 *
 * Invariant: `#environment` is the encoding of what {@link childEnvironment} gives for the user entry and the base that it
 * was made of, and nobody changes it.
 */
export class Environments {
  readonly #sources: EnvironmentSources;
  #uid: number | undefined;
  #user: PasswdEntry | undefined;
  #base: Variables | undefined;
  #environment: EncodedTexts = encodeEnvironment(new Map());

  /** Makes environments of `sources`. */
  constructor(sources: EnvironmentSources) {
    this.#sources = sources;
  }

  /** As {@link childEnvironment}; the same object for as long as all sources are the same and `request` is empty. */
  of(uid: number, request: Variables): EncodedTexts {
    if (request.size > 0) return encodeEnvironment(childEnvironment(this.#sources, uid, request));
    const [user, base] = [this.#sources.passwd.entry(uid), this.#sources.base.environment];
    if (this.#uid !== uid || this.#user !== user || this.#base !== base) {
      const sources = { ...this.#sources, passwd: { entry: () => user } };
      this.#environment = encodeEnvironment(childEnvironment(sources, uid, request));
      [this.#uid, this.#user, this.#base] = [uid, user, base];
    }
    return this.#environment;
  }
}

/** The lowest layer: the named variables, as far as the daemon has them. A name no variable can have is skipped. */
export function inherited(
  names: readonly string[],
  daemonEnv: (name: string) => string | undefined,
): Map<string, string> {
  const environment = new Map<string, string>();
  for (const name of names) {
    if (name === "" || name.includes("=") || name.includes("\0")) continue;
    const value = daemonEnv(name);
    if (value !== undefined) environment.set(name, value);
  }
  return environment;
}

/**
 * What login(1) would set for this user, `undefined` being one the passwd file does not know: no name then, the root
 * directory as home and the shell that every guest has. An empty field of a known user counts as not given.
 */
export function defaults(user: PasswdEntry | undefined): Map<string, string> {
  const environment = new Map([["PATH", DEFAULT_PATH]]);
  environment.set("HOME", user?.home || "/");
  if (user !== undefined) {
    environment.set("USER", user.name);
    environment.set("LOGNAME", user.name);
  }
  environment.set("SHELL", user?.shell || SHELL);
  return environment;
}
