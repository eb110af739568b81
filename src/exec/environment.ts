/**
 * The environment a command starts with, as layers. From lowest to highest:
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

import type { PasswdEntry, PasswdLookup } from "./passwd.ts";

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
  /** What the run hook installed: the same object until it is another. */
  readonly base: () => Variables;
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
  for (const layer of [base(), request]) {
    for (const [name, value] of layer) environment.set(name, value);
  }
  return environment;
}

/**
 * The environments of commands. Most ask for nothing of their own, and one after the other gets the same.
 *
 * Invariant: `#environment` is what {@link childEnvironment} gives for the user entry and the base that it was made of,
 * and nobody changes it.
 */
export class Environments {
  readonly #sources: EnvironmentSources;
  #uid: number | undefined;
  #user: PasswdEntry | undefined;
  #base: Variables | undefined;
  #environment: Variables = new Map();

  /** Makes environments of `sources`. */
  constructor(sources: EnvironmentSources) {
    this.#sources = sources;
  }

  /** As {@link childEnvironment}; the same object for as long as all sources are the same and `request` is empty. */
  of(uid: number, request: Variables): Variables {
    if (request.size > 0) return childEnvironment(this.#sources, uid, request);
    const [user, base] = [this.#sources.passwd.entry(uid), this.#sources.base()];
    if (this.#uid !== uid || this.#user !== user || this.#base !== base) {
      const sources = { ...this.#sources, passwd: { entry: () => user } };
      this.#environment = childEnvironment(sources, uid, request);
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
  environment.set("SHELL", user?.shell || "/bin/sh");
  return environment;
}
