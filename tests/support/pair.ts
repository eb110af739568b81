/** A VM and its client, whose handshake a test takes step by step. */

import { x25519 } from "@noble/curves/ed25519.js";
import { Handshake } from "../../src/client/noise.ts";
import type { Daemon } from "./daemon.ts";

/** The keys of both, and the run hook's part that tells the VM so. */
export class Pair {
  readonly #seed = x25519.utils.randomSecretKey();
  readonly secret: Uint8Array = x25519.utils.randomSecretKey();

  /** The run hook's keys, by their wire names. */
  get payload(): Record<string, string> {
    return {
      identity_seed: this.#seed.toBase64(),
      identity_host_public_key: x25519.getPublicKey(this.secret).toBase64(),
    };
  }

  get seedBytes(): Uint8Array {
    return this.#seed;
  }

  handshake(
    prologue: Uint8Array = new Uint8Array(0),
    secret: Uint8Array = this.secret,
  ): Handshake {
    return new Handshake({ secret, vmPublicKey: x25519.getPublicKey(this.#seed), prologue });
  }
}

export async function bootstrapPair(daemon: Daemon): Promise<Pair> {
  const pair = new Pair();
  await daemon.bootstrap(undefined, {}, pair.payload);
  return pair;
}
