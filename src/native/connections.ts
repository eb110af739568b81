import type { Core } from "./core.ts";
import { checked } from "./errno.ts";
import { EventKind } from "./wake.ts";

/** Size of a connection's facts: `FACTS_BYTES` in `native/src/exports/connections.rs`. */
const FACTS_BYTES = 20;
/** The kernel's number of the state of a connection whose other end has sent its FIN. */
const CLOSE_WAIT = 8;
/** The kernel's number of the state of a connection that was reset. */
const CLOSED = 7;
/** What stands for a number of bytes that the kernel does not tell. */
const UNTOLD = 2n ** 64n - 1n;

/** The other end of a connection of this process. */
export interface ConnectionPeer {
  /** Its address; `vsock:` and its context id where it came by vsock. */
  readonly hostname: string;
  /** Its port. */
  readonly port: number;
}

/** A connection of this process, by its ends. */
export interface ConnectionEnds extends ConnectionPeer {
  /** This end's port; 0 where any will do. */
  readonly localPort: number;
}

/** What the kernel knows of a connection. */
export interface ConnectionFacts {
  /** Whether the other end has said that it sends no more. */
  readonly ended: boolean;
  /** Whether it was reset. */
  readonly reset: boolean;
  /** Milliseconds since data came; 0 of vsock. */
  readonly cameMs: number;
  /** Bytes that were written and that the other end has not acknowledged; of vsock older kernels tell none. */
  readonly unacknowledged: number;
  /** Bytes that the other end has acknowledged, ever; undefined of vsock. */
  readonly acknowledged: number | undefined;
}

/**
 * One of this process's own connections, watched by the core, which looks four times a second and as soon as a watch
 * begins. Where two have the same ends nothing is known of either, and nothing done.
 */
export class WatchedConnection implements Disposable {
  readonly #core: Core;
  readonly #id: number;
  readonly #buffer = new Uint8Array(FACTS_BYTES);

  private constructor(core: Core, id: number) {
    this.#core = core;
    this.#id = id;
  }

  /** Watches; calls `onChange` when the other end has ended, reset or left it. */
  static watch(core: Core, ends: ConnectionEnds, onChange: () => void): WatchedConnection {
    const host = new TextEncoder().encode(ends.hostname);
    const { guestd_connection_watch: watch } = core.symbols;
    // Where the core cannot watch it nothing is known of it: no handle is 0.
    const id = Math.max(0, watch(host, host.length, ends.port, ends.localPort));
    core.wake.listen(EventKind.connection, id, onChange);
    return new WatchedConnection(core, id);
  }

  /** What is known now; undefined where it was not found (yet) or is gone. */
  get facts(): ConnectionFacts | undefined {
    const { guestd_connection_facts: facts } = this.#core.symbols;
    if (facts(this.#id, this.#buffer, FACTS_BYTES) !== 1) return undefined;
    const view = new DataView(this.#buffer.buffer);
    const state = view.getUint32(0, true);
    const acknowledged = view.getBigUint64(12, true);
    return {
      ended: state === CLOSE_WAIT,
      reset: state === CLOSED,
      cameMs: view.getUint32(4, true),
      unacknowledged: view.getUint32(8, true),
      acknowledged: acknowledged === UNTOLD ? undefined : Number(acknowledged),
    };
  }

  /** Ends both directions, whoever holds a descriptor of it. */
  end(): void {
    this.#core.symbols.guestd_connection_end(this.#id);
  }

  /** Watches no more. */
  [Symbol.dispose](): void {
    this.#core.wake.ignore(EventKind.connection, this.#id);
    this.#core.symbols.guestd_connection_forget(this.#id);
  }
}

/** Size of a change of the roll: `CHANGE_BYTES` in `native/src/exports/connections.rs`. */
const CHANGE_BYTES = 64;
/** Where its text begins. */
const TEXT_AT = 16;
/** How many are taken at a time. */
const CHANGES = 64;

/** A connection that came from `peer`, or one that is gone. */
export interface RollChange {
  /** What no other connection is ever called. */
  readonly cookie: bigint;
  /** The client's address and port, as {@link peerOf} has it; undefined once it is gone. */
  readonly peer: string | undefined;
}

/** Who is connected to this process's own server, as the core sees it: within 250 ms. */
export class ConnectionRoll {
  readonly #core: Core;

  /** Calls `onChange` when clients have come or gone, once the server is followed. */
  constructor(core: Core, onChange: () => void) {
    this.#core = core;
    core.wake.listen(EventKind.roll, 0, onChange);
  }

  /**
   * Follows the server that listens on this port, too. Returns how many connections all servers are to have: at most `most`, and
   * half the descriptors.
   */
  follow(transport: "tcp" | "vsock", port: number, most: number): number {
    const { guestd_connections_follow: follow } = this.#core.symbols;
    const isVsock = Number(transport === "vsock");
    return checked("follow the connections", follow(isVsock, port, most));
  }

  /** Who came and went since this was asked last, in this order. */
  *changes(): Generator<RollChange> {
    const buffer = new Uint8Array(CHANGES * CHANGE_BYTES);
    const view = new DataView(buffer.buffer);
    const { guestd_connections_changes: changes } = this.#core.symbols;
    for (let count = CHANGES; count === CHANGES;) {
      count = changes(buffer, buffer.length);
      for (let at = 0; at < count * CHANGE_BYTES; at += CHANGE_BYTES) {
        const text = buffer.subarray(at + TEXT_AT, at + TEXT_AT + view.getUint8(at + 9));
        const hostname = String.fromCharCode(...text);
        const peer = peerOf({ hostname, port: view.getUint32(at + 12, true) });
        const isHere = view.getUint8(at + 8) === 1;
        yield { cookie: view.getBigUint64(at, true), peer: isHere ? peer : undefined };
      }
    }
  }

  /** Ends a connection, both directions, if it is still there. */
  expel(cookie: bigint): void {
    this.#core.symbols.guestd_connections_expel(cookie);
  }
}

/** Whom Deno's server calls its client. */
export function clientOf(client: Deno.Addr): ConnectionPeer {
  if (client.transport === "vsock") return { hostname: `vsock:${client.cid}`, port: client.port };
  return client as Deno.NetAddr;
}

/** A client's address and port as one text; an IPv4 address in its IPv6 clothes is the IPv4 address. */
export function peerOf({ hostname, port }: ConnectionPeer): string {
  return `${hostname.startsWith("::ffff:") ? hostname.slice(7) : hostname} ${port}`;
}
