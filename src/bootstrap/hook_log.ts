import type { HookName } from "../contract/hooks.ts";
import type { HookObservation } from "../contract/system.ts";

/**
 * Entries that are kept; a guest process can forge later ones but never push out an earlier one.
 */
const CAPACITY = 64;

/** The first invocations of hooks, oldest first; later ones are only counted. */
export class HookLog {
  readonly #entries: HookObservation[] = [];
  #dropped = 0n;

  /** Records an invocation; `nowMs` is the wall clock in milliseconds since the epoch. */
  record(hook: HookName, nowMs: number = Date.now()): void {
    if (this.#entries.length < CAPACITY) {
      this.#entries.push({ hook, fired_at: Math.max(0, Math.floor(nowMs / 1000)) });
    } else this.#dropped++;
  }

  /** The recorded invocations. */
  get entries(): readonly HookObservation[] {
    return this.#entries;
  }

  /** How many were only counted. */
  get dropped(): bigint {
    return this.#dropped;
  }
}
