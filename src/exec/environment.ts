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

/** Pairs of name and value; a later pair of the same name wins. A Map is one, `Object.entries` gives one. */
export type Variables = Iterable<readonly [name: string, value: string]>;

/** The sources of a command's environment. */
export interface EnvironmentSources {
  /** Names the operator lets through from the daemon's own environment. */
  readonly inherit: readonly string[];
  /** Reads the daemon's own environment; undefined where a name is unset. */
  readonly daemonEnv: (name: string) => string | undefined;
  /** Knows the user in force. */
  readonly passwd: PasswdLookup;
  /** The user id the command will run under. */
  readonly uid: number;
  /** What the run hook installed. */
  readonly base: Variables;
  /** What the start request adds. */
  readonly request: Variables;
}

/** Puts the layers together. The result is new and the caller's own. */
export function childEnvironment(sources: EnvironmentSources): Map<string, string> {
  const environment = inherited(sources.inherit, sources.daemonEnv);
  for (const [name, value] of defaults(sources.passwd.entry(sources.uid))) {
    if (!environment.has(name)) environment.set(name, value);
  }
  for (const layer of [sources.base, sources.request]) {
    for (const [name, value] of layer) environment.set(name, value);
  }
  return environment;
}

/**
 * The environments of commands that ask for nothing of their own: most do, and one after the other gets the same.
 *
 * Invariant: `#environment` is what {@link childEnvironment} gives for the user entry and the base that it was made of,
 * and nobody changes it; the daemon's own environment never changes.
 */
export class Environments {
  #user: PasswdEntry | undefined;
  #base: Variables | undefined;
  #uid: number | undefined;
  #environment: ReadonlyMap<string, string> = new Map();

  /** The same object for as long as all sources are the same; new if the request has variables. */
  of(
    sources: EnvironmentSources & { readonly request: ReadonlyMap<string, string> },
  ): ReadonlyMap<string, string> {
    if (sources.request.size > 0) return childEnvironment(sources);
    const user = sources.passwd.entry(sources.uid);
    if (this.#uid !== sources.uid || this.#user !== user || this.#base !== sources.base) {
      this.#environment = childEnvironment({ ...sources, passwd: { entry: () => user } });
      [this.#uid, this.#user, this.#base] = [sources.uid, user, sources.base];
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
