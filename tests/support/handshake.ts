/** A VM and its client, whose handshake a test takes step by step. */

import { Identity } from "../../src/client/identity.ts";
import { Handshake } from "../../src/client/noise.ts";
import type { Daemon } from "./daemon.ts";

/** The empty prologue, or nothing. */
export const NONE: Uint8Array<ArrayBuffer> = new Uint8Array(0);

/** The client's side, by its own secret or another one. */
export function handshakeOf(
  { secret: own, guestPublicKey: vmPublicKey }: Identity,
  prologue: Uint8Array = NONE,
  secret: Uint8Array = own,
): Handshake {
  return new Handshake({ secret, vmPublicKey, prologue });
}

/** Gives a daemon its token and an identity. */
export async function bootstrapIdentity(daemon: Daemon): Promise<Identity> {
  const identity = Identity.generate();
  await daemon.bootstrap(undefined, { identity });
  return identity;
}
