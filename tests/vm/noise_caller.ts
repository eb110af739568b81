/**
 * The calling side of the tunnel's identity handshake, `Noise_KK_25519_ChaChaPoly_BLAKE2s` with an empty prologue,
 * written from the Noise specification alone: an error that the daemon's library has does not repeat itself here.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { createCipheriv, createDecipheriv, createHash, createHmac } from "node:crypto";

const NAME = "Noise_KK_25519_ChaChaPoly_BLAKE2s";
const KEY_BYTES = 32;
const TAG_BYTES = 16;

type Bytes = Uint8Array<ArrayBuffer>;

/** An X25519 pair; `secret` and `publicKey` are 32 bytes. */
export interface KeyPair {
  readonly key: CryptoKey;
  readonly secret: Bytes;
  readonly publicKey: Bytes;
}

/** A new pair. */
export async function keyPair(): Promise<KeyPair> {
  const pair = await crypto.subtle.generateKey("X25519", true, ["deriveBits"]) as CryptoKeyPair;
  const { d = "" } = await crypto.subtle.exportKey("jwk", pair.privateKey);
  return {
    key: pair.privateKey,
    secret: Uint8Array.fromBase64(d, { alphabet: "base64url" }),
    publicKey: new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey)),
  };
}

async function agree(own: KeyPair, peer: Bytes): Promise<Bytes> {
  const key = await crypto.subtle.importKey("raw", peer, "X25519", false, []);
  const algorithm = { name: "X25519", public: key };
  return new Uint8Array(await crypto.subtle.deriveBits(algorithm, own.key, KEY_BYTES * 8));
}

const join = (...parts: readonly Uint8Array[]): Bytes => new Uint8Array(Buffer.concat(parts));
const hash = (...parts: readonly Uint8Array[]): Bytes =>
  new Uint8Array(createHash("blake2s256").update(join(...parts)).digest());
const hmac = (key: Uint8Array, ...parts: readonly Uint8Array[]): Bytes =>
  new Uint8Array(createHmac("blake2s256", key).update(join(...parts)).digest());

/** Two keys out of a chaining key and new material. */
function derive(chain: Bytes, material: Uint8Array): [Bytes, Bytes] {
  const seed = hmac(chain, material);
  const first = hmac(seed, Uint8Array.of(1));
  return [first, hmac(seed, first, Uint8Array.of(2))];
}

/** One direction. Invariant: `#count` messages went through, each under its own nonce. */
class Cipher {
  readonly #key: Bytes;
  #count = 0n;

  constructor(key: Bytes) {
    this.#key = key;
  }

  #nonce(): Bytes {
    const nonce = new Uint8Array(12);
    new DataView(nonce.buffer).setBigUint64(4, this.#count++, true);
    return nonce;
  }

  seal(plain: Uint8Array, about: Uint8Array = new Uint8Array()): Bytes {
    const options = { authTagLength: TAG_BYTES };
    const cipher = createCipheriv("chacha20-poly1305", this.#key, this.#nonce(), options);
    cipher.setAAD(about, { plaintextLength: plain.length });
    return join(cipher.update(plain), cipher.final(), cipher.getAuthTag());
  }

  /** Throws for what was not sealed with this key, in this place. */
  open(sealed: Bytes, about: Uint8Array = new Uint8Array()): Bytes {
    const options = { authTagLength: TAG_BYTES };
    const decipher = createDecipheriv("chacha20-poly1305", this.#key, this.#nonce(), options);
    const end = sealed.length - TAG_BYTES;
    decipher.setAAD(about, { plaintextLength: end });
    decipher.setAuthTag(sealed.subarray(end));
    return join(decipher.update(sealed.subarray(0, end)), decipher.final());
  }
}

/** What the handshake gives: a cipher for each direction. */
export interface Session {
  readonly up: Cipher;
  readonly down: Cipher;
}

/** A handshake as its initiator. Invariant: `#h` covers everything that both sides have said so far. */
export class NoiseCaller {
  readonly #own: KeyPair;
  readonly #guest: Bytes;
  readonly #ephemeral: KeyPair;
  #h: Bytes;
  #chain: Bytes;

  private constructor(own: KeyPair, guest: Bytes, ephemeral: KeyPair) {
    this.#own = own;
    this.#guest = guest;
    this.#ephemeral = ephemeral;
    this.#chain = hash(new TextEncoder().encode(NAME));
    this.#h = hash(this.#chain);
    for (const known of [own.publicKey, guest]) this.#h = hash(this.#h, known);
  }

  /** One between the caller's own pair and the guest's public key. */
  static async begin(own: KeyPair, guest: Bytes): Promise<NoiseCaller> {
    return new NoiseCaller(own, guest, await keyPair());
  }

  async #mix(own: KeyPair, peer: Bytes): Promise<Bytes> {
    const [chain, key] = derive(this.#chain, await agree(own, peer));
    this.#chain = chain;
    return key;
  }

  /** The first message, with an empty payload. */
  async first(): Promise<Bytes> {
    this.#h = hash(this.#h, this.#ephemeral.publicKey);
    await this.#mix(this.#ephemeral, this.#guest);
    const sealed = new Cipher(await this.#mix(this.#own, this.#guest)).seal(
      new Uint8Array(),
      this.#h,
    );
    this.#h = hash(this.#h, sealed);
    return join(this.#ephemeral.publicKey, sealed);
  }

  /** Reads the guest's answer. Throws unless it knows the guest's key. */
  async finish(answer: Bytes): Promise<Session> {
    const ephemeral = answer.slice(0, KEY_BYTES);
    this.#h = hash(this.#h, ephemeral);
    await this.#mix(this.#ephemeral, ephemeral);
    const key = await this.#mix(this.#own, ephemeral);
    new Cipher(key).open(answer.slice(KEY_BYTES), this.#h);
    const [up, down] = derive(this.#chain, new Uint8Array());
    return { up: new Cipher(up), down: new Cipher(down) };
  }
}
