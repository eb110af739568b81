import type { Log } from "../log.ts";
import type { Core } from "../native/core.ts";
import { errnoText } from "../native/errno.ts";
import { repairIdentity } from "../native/identity.ts";
import { within } from "../within.ts";

/** How long a repair is waited for, in milliseconds: a disk that hangs must not keep a guest away. */
const WAIT_MS = 5000;

/** What the repair needs. */
export interface IdentityRepairOptions {
  /** Makes the steps. */
  readonly core: Core;
  /** Whether it is switched on. */
  readonly enabled: boolean;
  /** Directory beneath which the guest's files lie. */
  readonly root: string;
  /** Where each step's outcome is logged. */
  readonly log: Log;
}

/** What health says of the repair. */
export interface IdentityState {
  /** A step failed when the steps were last made: something may be shared with another guest. */
  readonly degraded: boolean;
  /** The steps were made. */
  readonly repaired: boolean;
}

/**
 * Gives a guest that may be a clone an identity of its own.
 *
 * Invariant: one repair is made at a time, and the next begins once it has ended: two would write the same files, and
 * the older outcome could come last.
 */
export class IdentityRepair {
  readonly #options: IdentityRepairOptions;
  #last: Promise<void> = Promise.resolve();
  #state: IdentityState = { degraded: false, repaired: false };

  /** Does nothing yet. */
  constructor(options: IdentityRepairOptions) {
    this.#options = options;
  }

  /** What the last repair came to. */
  get state(): IdentityState {
    return this.#state;
  }

  /**
   * Makes all steps, if the repair is switched on, and wipes `secret`, which stirs the kernel's
   * random generator. Waits for them for at most 5 s; then they go on, and until they end the identity
   * counts as degraded. Never rejects: a guest with a doubtful identity is still served.
   */
  async repair(secret: Uint8Array<ArrayBuffer> = new Uint8Array(0)): Promise<void> {
    const { enabled, log } = this.#options;
    if (!enabled) {
      secret.fill(0);
      return;
    }
    this.#last = this.#last.then(() => this.#make(secret));
    if (await within(WAIT_MS, this.#last, "late") === "late") {
      log.error("the identity repair is slow; it goes on");
      this.#state = { ...this.#state, degraded: true };
    }
  }

  async #make(secret: Uint8Array<ArrayBuffer>): Promise<void> {
    const { core, root, log } = this.#options;
    try {
      const repairing = repairIdentity(core, root, secret);
      // The core has its copy by now.
      secret.fill(0);
      const steps = await repairing;
      for (const { step, outcome, errno } of steps) {
        if (outcome === "failed") {
          log.error("identity step", { step, outcome, cause: errnoText(errno) });
        } else log.info("identity step", { step, outcome });
      }
      const degraded = steps.some(({ outcome }) => outcome === "failed");
      this.#state = { degraded, repaired: true };
    } catch (error) {
      const cause = error instanceof Error ? error.message : typeof error;
      log.error("the identity could not be repaired", { cause });
      this.#state = { ...this.#state, degraded: true };
    }
  }
}
