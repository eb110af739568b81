/**
 * `Noise_KK_25519_ChaChaPoly_BLAKE2s`, the client's side, after the text of the specification (revision 34) and with
 * primitives that the daemon does not use.
 */

import { chacha20poly1305 } from "@noble/ciphers/chacha.js";
import { x25519 } from "@noble/curves/ed25519.js";
import { blake2s } from "@noble/hashes/blake2.js";
import { hmac } from "@noble/hashes/hmac.js";
import { concat } from "./bytes.ts";

const PROTOCOL = "Noise_KK_25519_ChaChaPoly_BLAKE2s";
const encoder = new TextEncoder();

/** Section 4.3. */
function hkdf(key: Uint8Array, material: Uint8Array): [Uint8Array, Uint8Array] {
  const temp = hmac(blake2s, key, material);
  const one = hmac(blake2s, temp, new Uint8Array([1]));
  return [one, hmac(blake2s, temp, concat([one, new Uint8Array([2])]))];
}

/** Section 5.1. */
class CipherState {
  readonly #key: Uint8Array;
  #counter = 0n;

  constructor(key: Uint8Array) {
    this.#key = key;
  }

  seal(data: Uint8Array, plain: Uint8Array): Uint8Array<ArrayBuffer> {
    return concat([chacha20poly1305(this.#key, this.#nonce(), data).encrypt(plain)]);
  }

  open(data: Uint8Array, sealed: Uint8Array): Uint8Array<ArrayBuffer> {
    return concat([chacha20poly1305(this.#key, this.#nonce(), data).decrypt(sealed)]);
  }

  #nonce(): Uint8Array {
    const nonce = new Uint8Array(12);
    new DataView(nonce.buffer).setBigUint64(4, this.#counter++, true);
    return nonce;
  }
}

/** Who speaks, 32 bytes each, and in what context. */
export interface ClientKeys {
  /** The client's secret. */
  readonly secret: Uint8Array;
  /** The VM's public key. */
  readonly vmPublicKey: Uint8Array;
  /** What both ends have to agree on besides: see {@link portPrologue}. */
  readonly prologue: Uint8Array;
  /** For vectors only. */
  readonly ephemeral?: Uint8Array;
}

/** What follows a handshake: messages of both directions, each opened once and in order. */
export class Session {
  readonly #sending: CipherState;
  readonly #receiving: CipherState;
  /** What the VM's handshake message carried. */
  readonly payload: Uint8Array;
  /** Hash of the whole handshake, the same at both ends. */
  readonly hash: Uint8Array;
  /** The two keys, of what the client sends and of what it receives. */
  readonly keys: readonly [Uint8Array, Uint8Array];

  /** Made by {@link Handshake.finish}. */
  constructor(sending: Uint8Array, receiving: Uint8Array, payload: Uint8Array, hash: Uint8Array) {
    this.#sending = new CipherState(sending);
    this.#receiving = new CipherState(receiving);
    this.keys = [sending, receiving];
    this.payload = payload;
    this.hash = hash;
  }

  /** Seals the next message to the daemon. */
  seal(plain: Uint8Array | string): Uint8Array<ArrayBuffer> {
    const bytes = typeof plain === "string" ? encoder.encode(plain) : plain;
    return this.#sending.seal(new Uint8Array(0), bytes);
  }

  /** Opens the next message of the daemon; throws when it is not. */
  open(sealed: Uint8Array): Uint8Array<ArrayBuffer> {
    return this.#receiving.open(new Uint8Array(0), sealed);
  }
}

/** The initiator's side of the handshake: `-> e, es, ss` and `<- e, ee, se`. */
export class Handshake {
  readonly #keys: ClientKeys;
  readonly #ephemeral: Uint8Array;
  #hash: Uint8Array;
  #chain: Uint8Array;
  #cipher: CipherState | undefined;
  readonly #secrets: Uint8Array[] = [];

  /** Begins with keys; nothing is sent. Throws for keys that are no X25519 keys. */
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
  get secrets(): readonly Uint8Array[] {
    return this.#secrets;
  }

  /** The message that begins it. */
  first(payload: Uint8Array = new Uint8Array(0)): Uint8Array<ArrayBuffer> {
    const { secret, vmPublicKey } = this.#keys;
    const ephemeral = x25519.getPublicKey(this.#ephemeral);
    this.#mixHash(ephemeral);
    this.#mixKey(x25519.getSharedSecret(this.#ephemeral, vmPublicKey));
    this.#mixKey(x25519.getSharedSecret(secret, vmPublicKey));
    return concat([ephemeral, this.#seal(payload)]);
  }

  /** Reads the answer. Throws when it is not the VM's. */
  finish(answer: Uint8Array): Session {
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

  #seal(plain: Uint8Array): Uint8Array {
    if (this.#cipher === undefined) throw new Error("Cannot seal: there is no key");
    const sealed = this.#cipher.seal(this.#hash, plain);
    this.#mixHash(sealed);
    return sealed;
  }

  #mixHash(data: Uint8Array): void {
    this.#hash = blake2s(concat([this.#hash, data]));
  }

  #mixKey(material: Uint8Array): void {
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
