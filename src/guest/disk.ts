import type { DiskHealth } from "../contract/system.ts";
import type { Core } from "../native/core.ts";
import { diskAvailable } from "../native/system.ts";

/**
 * Free space of one file system against the reserve.
 *
 * Invariant: at most one measurement is under way, so that a file system that hangs costs one
 * native thread however often it is asked about.
 */
export class DiskGauge {
  readonly #core: Core;
  readonly #path: string;
  readonly #reserveBytes: bigint;
  #pending: Promise<DiskHealth | null> | undefined;

  /** Measures the file system of `path`; `reserveBytes` must stay free, 0 for no guard. */
  constructor(core: Core, path: string, reserveBytes: bigint) {
    this.#core = core;
    this.#path = path;
    this.#reserveBytes = reserveBytes;
  }

  /** The figures now; null when they cannot be had. Takes as long as the file system does. */
  measure(): Promise<DiskHealth | null> {
    this.#pending ??= this.#measure().finally(() => this.#pending = undefined);
    return this.#pending;
  }

  async #measure(): Promise<DiskHealth | null> {
    try {
      const available = await diskAvailable(this.#core, this.#path);
      return {
        available_bytes: available,
        reserve_bytes: this.#reserveBytes,
        under_pressure: available < this.#reserveBytes,
      };
    } catch {
      return null;
    }
  }
}
