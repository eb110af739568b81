/** The keys by which a guest and its client know each other in a tunnel. */

import { x25519 } from "@noble/curves/ed25519.js";
import { fromBase64, toBase64 } from "./bytes.ts";
import { GuestError } from "./errors.ts";

/** An identity as text, to be stored: whoever has it can open tunnels to this guest. Both are base64 of 32 bytes. */
export interface StoredIdentity {
  /** The client's secret. */
  readonly secret: string;
  /** The guest's public key. */
  readonly guest_public_key: string;
}

/** Both ends of a guest's tunnels: the client's secret, and whom it expects there. */
export class Identity {
  /** The client's X25519 secret, 32 bytes. */
  readonly secret: Uint8Array;
  /** The guest's X25519 public key, 32 bytes. */
  readonly guestPublicKey: Uint8Array;
  readonly #seed: Uint8Array | undefined;

  private constructor(secret: Uint8Array, guestPublicKey: Uint8Array, seed?: Uint8Array) {
    this.secret = secret;
    this.guestPublicKey = guestPublicKey;
    this.#seed = seed;
  }

  /** New keys for a guest that is about to get its run hook. */
  static generate(): Identity {
    const seed = x25519.utils.randomSecretKey();
    return new Identity(x25519.utils.randomSecretKey(), x25519.getPublicKey(seed), seed);
  }

  /** What was stored of an identity. Throws a {@link GuestError} where that is none. */
  static from({ secret, guest_public_key }: StoredIdentity): Identity {
    return new Identity(
      decodeKey(secret, "secret"),
      decodeKey(guest_public_key, "guest_public_key"),
    );
  }

  /** What to store once the guest has its own part; that is not among it. */
  toJSON(): StoredIdentity {
    return { secret: toBase64(this.secret), guest_public_key: toBase64(this.guestPublicKey) };
  }

  /** The run hook's part. Throws where the identity was stored: a guest's secret is not. */
  payload(): { readonly identity_seed: string; readonly identity_host_public_key: string } {
    if (this.#seed === undefined) {
      throw new GuestError("Cannot give a guest this identity: its own secret is not known here");
    }
    const publicKey = x25519.getPublicKey(this.secret);
    return {
      identity_seed: toBase64(this.#seed),
      identity_host_public_key: toBase64(publicKey),
    };
  }
}

function decodeKey(text: string, name: string): Uint8Array {
  try {
    const key = fromBase64(text);
    if (key.length === 32) return key;
  } catch {
    // Told below.
  }
  throw new GuestError(`Cannot read an identity: ${name} is not base64 of 32 bytes`);
}
