import type { Core } from "./core.ts";
import { checked } from "./errno.ts";

/** What a message holds more than its plaintext, in bytes. */
const TAG_BYTES = 16;
/** What one message holds at most, in bytes of plaintext. */
const CHUNK_BYTES = 32_768;
/** Room for a handle, flags and the answer of a handshake. */
const ACCEPTED_BYTES = 128;
/** Flags of `guestd_noise_accept`: `native/src/exports/noise.rs`. */
const MUST_CONFIRM = 1;
const ENDS = 2;
/** What the client says first where it must confirm. */
const READY = "microvms-tunnel-ready";

/** The handshake or a message was not what the client would have sent. It says no more on purpose. */
export class NoiseRefused extends Error {
  /** Says no more. */
  constructor() {
    super("Cannot take the message: it is not the client's");
    this.name = "NoiseRefused";
  }
}

/**
 * The daemon's end of Noise behind its handshake. The keys are the core's.
 *
 * Invariant: `#id` names the core's session until it is disposed of, once.
 */
export class NoiseSession implements Disposable {
  /** Whether the client must confirm before anything is dialled. */
  readonly mustConfirm: boolean;
  /** Whether both ends say with an empty message when their stream ends. */
  readonly ends: boolean;
  /** What the client is answered. */
  readonly answer: Uint8Array<ArrayBuffer>;
  readonly #core: Core;
  readonly #id: number;
  readonly #sealed = new Uint8Array(CHUNK_BYTES + TAG_BYTES);
  #disposed = false;

  private constructor(core: Core, accepted: Uint8Array<ArrayBuffer>) {
    const view = new DataView(accepted.buffer);
    const flags = view.getUint8(4);
    this.#core = core;
    this.#id = view.getUint32(0, true);
    this.mustConfirm = (flags & MUST_CONFIRM) !== 0;
    this.ends = (flags & ENDS) !== 0;
    this.answer = accepted.subarray(5);
  }

  /** Takes a client's first message for a tunnel to `port`. Throws {@link NoiseRefused}. */
  static accept(core: Core, port: number, first: Uint8Array<ArrayBuffer>): NoiseSession {
    const accepted = new Uint8Array(ACCEPTED_BYTES);
    const { guestd_noise_accept: accept } = core.symbols;
    const length = accept(port, first, first.length, accepted, accepted.length);
    if (length < 0) throw new NoiseRefused();
    return new NoiseSession(core, accepted.subarray(0, length));
  }

  /** Encrypts; gives each message to `send`, which must copy it. */
  seal(plain: Uint8Array<ArrayBuffer>, send: (message: Uint8Array<ArrayBuffer>) => void): void {
    const { guestd_noise_seal: seal } = this.#core.symbols;
    let at = 0;
    do {
      const chunk = plain.subarray(at, at + CHUNK_BYTES);
      const length = seal(this.#id, chunk, chunk.length, this.#sealed, this.#sealed.length);
      send(this.#sealed.subarray(0, checked("encrypt", length)));
      at += CHUNK_BYTES;
    } while (at < plain.length);
  }

  /** Decrypts a message where it lies. Throws {@link NoiseRefused}. */
  open(message: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    const length = this.#core.symbols.guestd_noise_open(this.#id, message, message.length);
    if (length < 0) throw new NoiseRefused();
    return message.subarray(0, length);
  }

  /** Whether a message, which is decrypted, is the confirmation. Throws {@link NoiseRefused}. */
  confirms(message: Uint8Array<ArrayBuffer>): boolean {
    const plain = this.open(message);
    return plain.length === READY.length && String.fromCharCode(...plain) === READY;
  }

  /** Forgets the keys. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#core.symbols.guestd_noise_close(this.#id);
  }
}
