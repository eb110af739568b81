import type { TunnelQuery } from "../contract/tunnel.ts";
import type { Log } from "../log.ts";
import { HeldCaller } from "../native/caller.ts";
import type { Core } from "../native/core.ts";
import { type IdentityKeys, installIdentity } from "../native/identity.ts";
import { NativeTunnel, TunnelEnd, TunnelPurpose } from "../native/tunnel.ts";
import { findUpgrade, type Upgrade, type UpgradedConnection } from "./upgrade.ts";
import {
  closeFrame,
  GOING_AWAY,
  NO_IDENTITY,
  PORT_ZERO,
  RELAY_FAILED,
  type Verdict,
  verdictOf,
} from "./verdict.ts";

/** How much is read of a caller at a time before the core reads by itself, in bytes. */
const FIRST_READ_BYTES = 256 * 1024;

/** What the tunnels need. */
export interface TunnelsOptions {
  /** Pumps the frames. */
  readonly core: Core;
  /** The port that the daemon listens on. */
  readonly localPort: () => number;
  /** Where openings, endings and failures are logged. */
  readonly log: Log;
}

/** A request for a tunnel, decoded and not yet upgraded. */
export interface TunnelRequest {
  /** The request. */
  readonly request: Request;
  /** Its connection; undefined where it was not found. */
  readonly caller: HeldCaller | undefined;
  /** Head of the answer that upgrades. */
  readonly head: Uint8Array<ArrayBuffer>;
  /** Where the tunnel leads. */
  readonly query: TunnelQuery;
}

/**
 * All tunnels. The bytes never come here: the core takes the caller's connection over and relays.
 *
 * Invariant: a tunnel is in `#live` from its opening until both its connections are gone.
 */
export class Tunnels {
  readonly #options: TunnelsOptions;
  readonly #upgrade: Upgrade | undefined;
  readonly #live = new Set<NativeTunnel>();
  #hasIdentity = false;
  #closing = false;

  /** A Deno that cannot hand out a connection is said; all but the tunnels is served then. */
  constructor(options: TunnelsOptions) {
    this.#options = options;
    this.#upgrade = findUpgrade();
    if (this.#upgrade === undefined) {
      options.log.error("this Deno has no raw upgrade: tunnels fail", { deno: Deno.version.deno });
    }
  }

  /** Installs the keys of the handshake. Throws `NativeError`. */
  installIdentity(keys: IdentityKeys): void {
    installIdentity(this.#options.core, keys);
    this.#hasIdentity = true;
  }

  /** Finds the connection of a request, which counts if the caller has not left by then. */
  hold({ hostname, port }: Deno.NetAddr): Promise<HeldCaller | undefined> {
    const { core, localPort } = this.#options;
    return HeldCaller.hold(core, { hostname, port, localPort: localPort() }, { wary: false });
  }

  /** Upgrades a request; the answer must be returned to the server as it is. Throws where it cannot. */
  open({ request, caller, head, query }: TunnelRequest): Response {
    if (this.#upgrade === undefined) throw new Error("Cannot upgrade: Deno has no raw upgrade");
    const { conn, response } = this.#upgrade(request);
    this.#serve(conn, caller, head, query).catch((error: unknown) => {
      const kind = error instanceof Error ? error.name : typeof error;
      this.#options.log.error("a tunnel failed", { port: query.port, kind });
    }).finally(() => {
      caller?.[Symbol.dispose]();
      quietly(() => conn.close());
    });
    return response;
  }

  /** Ends all tunnels, also those opened from now on; settles once they are gone. */
  async close(): Promise<void> {
    this.#closing = true;
    const { code, reason } = GOING_AWAY;
    await Promise.all([...this.#live].map((tunnel) => tunnel.close(code, reason)));
  }

  async #serve(
    conn: UpgradedConnection,
    caller: HeldCaller | undefined,
    head: Uint8Array<ArrayBuffer>,
    query: TunnelQuery,
  ): Promise<void> {
    const { log } = this.#options;
    const { port, identity } = query;
    if (!await written(conn, head)) return;
    const refusal = this.#refusal(query);
    let tunnel: NativeTunnel;
    try {
      tunnel = this.#take(caller, port, refusal, identity);
    } catch (error) {
      // A caller that is gone by now is nobody's error.
      if (await written(conn, closeFrame(refusal ?? RELAY_FAILED))) {
        const cause = error instanceof Error ? error.message : typeof error;
        log.error("a tunnel could not be opened", { port, cause });
      }
      return;
    }
    this.#live.add(tunnel);
    try {
      log.debug("tunnel opened", { port, identity });
      const feeding = feed(conn, tunnel);
      const verdict = refusal ?? await this.#verdict(tunnel, port);
      await tunnel.close(verdict.code, verdict.reason);
      // Not before: Deno shuts the connection down when it lets go of its descriptor.
      quietly(() => conn.close());
      await feeding;
    } finally {
      this.#live.delete(tunnel);
    }
  }

  async #verdict(tunnel: NativeTunnel, port: number): Promise<Verdict> {
    const ending = await tunnel.ended;
    const verdict = verdictOf(ending, port);
    const [end] = Object.entries(TunnelEnd).find(([, value]) => value === ending.end) ?? ["failed"];
    this.#options.log.debug("tunnel ended", { port, end, code: verdict.code });
    return verdict;
  }

  #refusal({ port, identity }: TunnelQuery): Verdict | undefined {
    if (this.#closing) return GOING_AWAY;
    if (port === 0) return PORT_ZERO;
    return identity && !this.#hasIdentity ? NO_IDENTITY : undefined;
  }

  #take(
    caller: HeldCaller | undefined,
    port: number,
    refusal: Verdict | undefined,
    identity: boolean,
  ): NativeTunnel {
    if (caller === undefined) throw new Error("Cannot take over the connection: it was not found");
    const relay = identity ? TunnelPurpose.prove : TunnelPurpose.relay;
    const purpose = refusal === undefined ? relay : TunnelPurpose.refuse;
    return NativeTunnel.open(this.#options.core, caller, port, purpose);
  }
}

/**
 * Hands the core what Deno has read behind the request, or the first bytes that come, and leaves
 * the connection to it. A read that does not fill its buffer has given all that Deno had; one that
 * does may have left some of it, and before the next the guest must have taken this one.
 */
async function feed(conn: UpgradedConnection, tunnel: NativeTunnel): Promise<void> {
  try {
    for (let last = false; !last;) {
      const buffer = new Uint8Array(FIRST_READ_BYTES);
      const count = await conn.read(buffer) ?? 0;
      last = count < buffer.length;
      await tunnel.feed(buffer.subarray(0, count), last);
    }
  } catch {
    // Closed by us, or lost: the core finds out by itself what it can still read.
    await tunnel.feed(new Uint8Array(0), true);
  }
}

async function written(conn: UpgradedConnection, bytes: Uint8Array): Promise<boolean> {
  try {
    for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
    return true;
  } catch {
    // The caller is gone: there is nobody to tell.
    return false;
  }
}

function quietly(act: () => void): void {
  try {
    act();
  } catch {
    // It is closed already.
  }
}
