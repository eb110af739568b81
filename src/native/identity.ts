import type { Identity } from "../contract/hooks.ts";
import type { Core } from "./core.ts";
import { checked } from "./errno.ts";

/** Installs the keys of the handshake, for tunnels opened from now on. Throws `NativeError`. */
export function installIdentity(core: Core, { seed, hostPublicKey }: Identity): void {
  const { guestd_identity_install: install } = core.symbols;
  checked(
    "install the identity",
    install(seed, seed.length, hostPublicKey, hostPublicKey.length),
  );
}

/** The steps of the repair, in the order of `repair` in `native/src/identity`. */
const STEPS = ["machine-id", "dbus machine-id", "boot_id", "random seed", "kernel generator"];
/** The byte of a step that found nothing to repair. */
const NOT_APPLICABLE = 255;

/** What one step of the repair came to. */
export interface RepairStep {
  /** What it repairs. */
  readonly step: string;
  /** Whether it did, had nothing to do, or failed. */
  readonly outcome: "repaired" | "not applicable" | "failed";
  /** The errno of a failure; else 0. */
  readonly errno: number;
}

/**
 * Makes anew what clones of this guest share, beneath the directory `root`; `secret` stirs the
 * kernel's random generator. Throws `NativeError` when not even the attempt could be made.
 */
export async function repairIdentity(
  core: Core,
  root: string,
  secret: Uint8Array<ArrayBuffer>,
): Promise<RepairStep[]> {
  const path = new TextEncoder().encode(root);
  const { guestd_identity_repair: repair } = core.symbols;
  const { status, value } = await core.wake.operation((token) =>
    repair(path, path.length, secret, secret.length, token)
  );
  checked("repair the identity", -Math.abs(status));
  return STEPS.map((step, index) => {
    const byte = Math.floor(value / 2 ** (8 * index)) % 256;
    if (byte === 0) return { step, outcome: "repaired", errno: 0 };
    if (byte === NOT_APPLICABLE) return { step, outcome: "not applicable", errno: 0 };
    return { step, outcome: "failed", errno: byte };
  });
}
