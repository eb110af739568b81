import { type Core } from "../native/core.ts";
import { NoiseRefused, NoiseSession } from "../native/noise.ts";

/** What messages mean: their bytes, or what their bytes decrypt to. */
export interface Channel extends Disposable {
  /** Whether both ends say with an empty message when their stream ends. */
  readonly ends: boolean;
  /** The bytes of a message. Throws {@link NoiseRefused}. */
  open(message: ArrayBuffer | string): Uint8Array<ArrayBuffer>;
  /** Gives the messages for these bytes to `send`, which must copy them. */
  seal(bytes: Uint8Array<ArrayBuffer>, send: (message: Uint8Array<ArrayBuffer>) => void): void;
}

/** Messages are their bytes, texts too. */
export const PLAIN: Channel = {
  ends: false,
  open: (message) =>
    typeof message === "string" ? new TextEncoder().encode(message) : new Uint8Array(message),
  seal: (bytes, send) => send(bytes),
  [Symbol.dispose](): void {},
};

/** Messages of a client that has proven itself; its keys are forgotten with it. */
function sealed(session: NoiseSession): Channel {
  return {
    ends: session.ends,
    open: (message) => session.open(binary(message)),
    seal: (bytes, send) => session.seal(bytes, send),
    [Symbol.dispose]: () => session[Symbol.dispose](),
  };
}

/**
 * The proof that a client is who it should be: its first message, and the confirmation where its prologue demands one.
 *
 * Invariant: `#session` is there from a good first message until the proof is given or disposed of.
 */
export class Proof implements Disposable {
  readonly #core: Core;
  readonly #port: number;
  #session: NoiseSession | undefined;

  /** A proof for a tunnel to `port`. */
  constructor(core: Core, port: number) {
    this.#core = core;
    this.#port = port;
  }

  /**
   * Takes the client's next message and gives the answer to `send`. The channel, once the proof is given. Throws
   * {@link NoiseRefused}.
   */
  take(
    message: ArrayBuffer | string,
    send: (answer: Uint8Array<ArrayBuffer>) => void,
  ): Channel | undefined {
    const bytes = binary(message);
    if (this.#session === undefined) {
      this.#session = NoiseSession.accept(this.#core, this.#port, bytes);
      send(this.#session.answer);
      if (this.#session.mustConfirm) return undefined;
    } else if (!this.#session.confirms(bytes)) {
      throw new NoiseRefused();
    }
    const channel = sealed(this.#session);
    this.#session = undefined;
    return channel;
  }

  /** Forgets a handshake that came to nothing. */
  [Symbol.dispose](): void {
    this.#session?.[Symbol.dispose]();
  }
}

function binary(message: ArrayBuffer | string): Uint8Array<ArrayBuffer> {
  if (typeof message === "string") throw new NoiseRefused();
  return new Uint8Array(message);
}
