/**
 * A second implementation of `Noise_KK_25519_ChaChaPoly_BLAKE2s`, the client's side, after the text of the
 * specification (revision 34) and with primitives that the daemon does not use.
 */

import { chacha20poly1305 } from "@noble/ciphers/chacha.js";
import { x25519 } from "@noble/curves/ed25519.js";
import { blake2s } from "@noble/hashes/blake2.js";
import { hmac } from "@noble/hashes/hmac.js";
import { concat } from "./bytes.ts";
import type { Daemon } from "./daemon.ts";

type Bytes = Uint8Array;

const PROTOCOL = "Noise_KK_25519_ChaChaPoly_BLAKE2s";
const encoder = new TextEncoder();

/** Section 4.3. */
function hkdf(key: Bytes, material: Bytes): [Bytes, Bytes] {
  const temp = hmac(blake2s, key, material);
  const one = hmac(blake2s, temp, new Uint8Array([1]));
  return [one, hmac(blake2s, temp, concat([one, new Uint8Array([2])]))];
}

/** Section 5.1. */
class CipherState {
  readonly #key: Bytes;
  #counter = 0n;

  constructor(key: Bytes) {
    this.#key = key;
  }

  seal(data: Bytes, plain: Bytes): Uint8Array<ArrayBuffer> {
    return concat([chacha20poly1305(this.#key, this.#nonce(), data).encrypt(plain)]);
  }

  open(data: Bytes, sealed: Bytes): Uint8Array<ArrayBuffer> {
    return concat([chacha20poly1305(this.#key, this.#nonce(), data).decrypt(sealed)]);
  }

  #nonce(): Bytes {
    const nonce = new Uint8Array(12);
    new DataView(nonce.buffer).setBigUint64(4, this.#counter++, true);
    return nonce;
  }
}

/** Who speaks: the client's secret, the VM's public key, and the prologue. */
export interface ClientKeys {
  readonly secret: Bytes;
  readonly vmPublicKey: Bytes;
  readonly prologue: Bytes;
  /** For vectors only. */
  readonly ephemeral?: Bytes;
}

export class Session {
  readonly #sending: CipherState;
  readonly #receiving: CipherState;
  readonly payload: Bytes;
  readonly hash: Bytes;
  /** The two keys, of what the client sends and of what it receives. */
  readonly keys: readonly [Bytes, Bytes];

  constructor(sending: Bytes, receiving: Bytes, payload: Bytes, hash: Bytes) {
    this.#sending = new CipherState(sending);
    this.#receiving = new CipherState(receiving);
    this.keys = [sending, receiving];
    this.payload = payload;
    this.hash = hash;
  }

  seal(plain: Bytes | string): Uint8Array<ArrayBuffer> {
    const bytes = typeof plain === "string" ? encoder.encode(plain) : plain;
    return this.#sending.seal(new Uint8Array(0), bytes);
  }

  /** Opens the next message of the daemon; throws when it is not. */
  open(sealed: Bytes): Uint8Array<ArrayBuffer> {
    return this.#receiving.open(new Uint8Array(0), sealed);
  }
}

/** The initiator's side of the handshake: `-> e, es, ss` and `<- e, ee, se`. */
export class Handshake {
  readonly #keys: ClientKeys;
  readonly #ephemeral: Bytes;
  #hash: Bytes;
  #chain: Bytes;
  #cipher: CipherState | undefined;
  readonly #secrets: Bytes[] = [];

  constructor(keys: ClientKeys) {
    this.#keys = keys;
    this.#ephemeral = keys.ephemeral ?? x25519.utils.randomSecretKey();
    // Longer than a hash, the name is hashed; then the prologue and both static keys are mixed in.
    this.#hash = blake2s(encoder.encode(PROTOCOL));
    this.#chain = this.#hash;
    this.#mixHash(keys.prologue);
    this.#mixHash(x25519.getPublicKey(keys.secret));
    this.#mixHash(keys.vmPublicKey);
  }

  /** What both ends have computed so far and nobody else may know: shared secrets, chaining keys, message keys. */
  get secrets(): readonly Bytes[] {
    return this.#secrets;
  }

  first(payload: Bytes = new Uint8Array(0)): Uint8Array<ArrayBuffer> {
    const { secret, vmPublicKey } = this.#keys;
    const ephemeral = x25519.getPublicKey(this.#ephemeral);
    this.#mixHash(ephemeral);
    this.#mixKey(x25519.getSharedSecret(this.#ephemeral, vmPublicKey));
    this.#mixKey(x25519.getSharedSecret(secret, vmPublicKey));
    return concat([ephemeral, this.#seal(payload)]);
  }

  /** Reads the answer. Throws when it is not the VM's. */
  finish(answer: Bytes): Session {
    const { secret } = this.#keys;
    const theirs = answer.subarray(0, 32);
    this.#mixHash(theirs);
    this.#mixKey(x25519.getSharedSecret(this.#ephemeral, theirs));
    this.#mixKey(x25519.getSharedSecret(secret, theirs));
    const sealed = answer.subarray(32);
    if (this.#cipher === undefined) throw new Error("Cannot finish: nothing was begun");
    const payload = this.#cipher.open(this.#hash, sealed);
    this.#mixHash(sealed);
    const [sending, receiving] = hkdf(this.#chain, new Uint8Array(0));
    return new Session(sending, receiving, payload, this.#hash);
  }

  #seal(plain: Bytes): Bytes {
    if (this.#cipher === undefined) throw new Error("Cannot seal: there is no key");
    const sealed = this.#cipher.seal(this.#hash, plain);
    this.#mixHash(sealed);
    return sealed;
  }

  #mixHash(data: Bytes): void {
    this.#hash = blake2s(concat([this.#hash, data]));
  }

  #mixKey(material: Bytes): void {
    const [chain, key] = hkdf(this.#chain, material);
    this.#secrets.push(material, chain, key);
    this.#chain = chain;
    this.#cipher = new CipherState(key);
  }
}

/** The prologue that names the guest's port. */
export function portPrologue(port: number): Uint8Array<ArrayBuffer> {
  const text = encoder.encode(`microvms-tunnel\0${PROTOCOL}\x002\0/v1/tcp\0`);
  return concat([text, new Uint8Array([port >> 8, port & 0xff])]);
}

/** What the client's first transport message says under that prologue. */
export const READY = "microvms-tunnel-ready";

/** A VM and its client, and the run hook's part that tells the VM so. */
export class Pair {
  readonly #seed = x25519.utils.randomSecretKey();
  readonly secret: Bytes = x25519.utils.randomSecretKey();

  /** The run hook's keys, by their wire names. */
  get payload(): Record<string, string> {
    return {
      identity_seed: this.#seed.toBase64(),
      identity_host_public_key: x25519.getPublicKey(this.secret).toBase64(),
    };
  }

  get seedBytes(): Bytes {
    return this.#seed;
  }

  handshake(prologue: Bytes = new Uint8Array(0), secret: Bytes = this.secret): Handshake {
    return new Handshake({ secret, vmPublicKey: x25519.getPublicKey(this.#seed), prologue });
  }
}

export async function bootstrapPair(daemon: Daemon): Promise<Pair> {
  const pair = new Pair();
  await daemon.bootstrap(undefined, {}, pair.payload);
  return pair;
}
