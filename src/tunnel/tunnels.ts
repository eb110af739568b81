import type { Identity } from "../contract/hooks.ts";
import type { TunnelQuery } from "../contract/tunnel.ts";
import type { Log } from "../log.ts";
import type { Core } from "../native/core.ts";
import { clientOf } from "../native/connections.ts";
import { installIdentity } from "../native/identity.ts";
import type { Net } from "./guest_socket.ts";
import { findReadLoop } from "./pause.ts";
import { Relay } from "./relay.ts";
import { Turns } from "./turns.ts";
import { GOING_AWAY, NO_IDENTITY, PORT_ZERO, type Verdict } from "./verdict.ts";

/** What the tunnels need. */
export interface TunnelsOptions {
  /** Has the keys, and looks at the connections. */
  readonly core: Core;
  /** Where openings, endings and failures are logged. */
  readonly log: Log;
  /** The TCP port that the daemon listens on; 0 where it listens on several, or none. */
  readonly localPort: () => number;
  /** Finds what makes a client wait; {@link findReadLoop} unless a test says otherwise. */
  readonly findLoop?: typeof findReadLoop;
}

/**
 * All tunnels.
 *
 * Invariant: a tunnel is in `#live` from its opening until both its connections are gone.
 */
export class Tunnels {
  readonly #options: TunnelsOptions;
  readonly #live = new Set<Relay>();
  readonly #turns = new Turns();
  #net: Promise<Net> | undefined;
  #hasIdentity = false;
  #closing = false;
  #warned = false;

  /** Nothing is loaded before the first tunnel. */
  constructor(options: TunnelsOptions) {
    this.#options = options;
  }

  /** Installs the keys of the handshake. Throws `NativeError`. */
  installIdentity(keys: Identity): void {
    installIdentity(this.#options.core, keys);
    this.#hasIdentity = true;
  }

  /**
   * Upgrades a request, whose client has the address `client`; the answer must be returned to the server as it is. Throws
   * where it cannot. `gone` settles once both the tunnel's connections are gone.
   */
  async open(
    request: Request,
    client: Deno.Addr,
    query: TunnelQuery,
  ): Promise<{ readonly response: Response; readonly gone: Promise<void> }> {
    const { core, log, localPort, findLoop = findReadLoop } = this.#options;
    const net = await (this.#net ??= import("node:net"));
    // Deno's own look for clients that are silent would end one whose guest makes it wait.
    const { socket, response } = Deno.upgradeWebSocket(request, { idleTimeout: 0 });
    const { port, identity } = query;
    const loop = findLoop(socket);
    if (loop === undefined) this.#warn();
    const relay = new Relay({
      core,
      net,
      socket,
      loop,
      turns: this.#turns,
      ends: { ...clientOf(client), localPort: client.transport === "vsock" ? 0 : localPort() },
      query,
      refusal: this.#refusal(query),
      onEnd: (verdict) => log.info("tunnel ended", { port, code: verdict?.code ?? null }),
    });
    this.#live.add(relay);
    log.info("tunnel opened", { port, identity });
    const gone = relay.gone.finally(() => this.#live.delete(relay));
    return { response, gone };
  }

  /** Ends all tunnels, also those opened from now on; settles once they are gone. */
  async close(): Promise<void> {
    this.#closing = true;
    for (const relay of this.#live) relay.stop(GOING_AWAY);
    await Promise.all([...this.#live].map((relay) => relay.gone));
  }

  #refusal({ port, identity }: TunnelQuery): Verdict | undefined {
    if (this.#closing) return GOING_AWAY;
    if (port === 0) return PORT_ZERO;
    return identity && !this.#hasIdentity ? NO_IDENTITY : undefined;
  }

  #warn(): void {
    if (this.#warned) return;
    this.#warned = true;
    this.#options.log.warn(
      "this Deno's WebSocket cannot be paused: guests that take nothing lose their tunnel",
      {
        deno: Deno.version.deno,
      },
    );
  }
}
