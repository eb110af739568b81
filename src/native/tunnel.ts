import type { HeldCaller } from "./caller.ts";
import type { Core } from "./core.ts";
import { checked } from "./status.ts";

/** Why a tunnel ends: `End` in `native/src/tunnel/relay.rs`. */
export const TunnelEnd = {
  stopped: 1,
  guestEnded: 2,
  callerClosed: 3,
  callerGone: 4,
  dialFailed: 5,
  guestFailed: 6,
  handshakeRefused: 7,
  messageBroken: 8,
  frameBroken: 9,
} as const;

/** What a tunnel is opened for: to relay, to relay once the caller has proven itself, to be closed. */
export const TunnelPurpose = { relay: 0, prove: 1, refuse: 2 } as const;

/** Why a tunnel ended. */
export interface TunnelEnding {
  /** One of {@link TunnelEnd}. */
  readonly end: number;
  /** The errno of a failure; 0 where there is none. */
  readonly errno: number;
}

/** One tunnel, as the core holds it: from `open` until `close` has ended. */
export class NativeTunnel {
  /** Settles with the first reason for the tunnel's end. Then it has to be closed. */
  readonly ended: Promise<TunnelEnding>;
  readonly #core: Core;
  readonly #id: number;
  #gone: Promise<void> | undefined;

  private constructor(core: Core, id: number, ended: Promise<TunnelEnding>) {
    this.#core = core;
    this.#id = id;
    this.ended = ended;
  }

  /**
   * Takes over the caller's connection, which is used up, and begins. `port` is the guest's, `purpose` one of
   * {@link TunnelPurpose}. Throws `NativeError`.
   */
  static open(core: Core, caller: HeldCaller, port: number, purpose: number): NativeTunnel {
    const { guestd_tunnel_open: open } = core.symbols;
    let id = 0;
    const ended = core.operation((token) => id = open(caller.use(), port, purpose, token));
    checked("take over the caller's connection", id);
    return new NativeTunnel(
      core,
      id,
      ended.then(({ status, value }) => ({ end: status, errno: value })),
    );
  }

  /**
   * Gives it bytes of the caller that were read before; `last` if the socket still holds the rest.
   * Settles once the guest has taken them, or the tunnel is gone.
   */
  async feed(bytes: Uint8Array<ArrayBuffer>, last: boolean): Promise<void> {
    const { guestd_tunnel_feed: feed } = this.#core.symbols;
    await this.#core.operation((token) => feed(this.#id, bytes, bytes.length, last ? 1 : 0, token));
  }

  /**
   * Sends a close frame, none for code 0, and waits until both connections are gone. Only the
   * first call says code and reason.
   */
  close(code: number, reason: string): Promise<void> {
    const text = new TextEncoder().encode(reason);
    const { guestd_tunnel_close: close } = this.#core.symbols;
    return this.#gone ??= this.#core.operation((token) =>
      close(this.#id, code, text, text.length, token)
    ).then(() => {});
  }
}
