import type { Log } from "../log.ts";
import type { ListenAddress } from "../settings.ts";
import type { Core } from "../native/core.ts";
import { clientOf, ConnectionRoll, peerOf } from "../native/connections.ts";
import { type ClientLimits, Clients } from "./clients.ts";

/** The log tells of connections that were ended at most so often, in milliseconds. */
const TELL_MS = 10_000;
/** A look follows this long after somebody became overdue, in milliseconds: those who are go together. */
const TOGETHER_MS = 5;

/** A request, as far as its connection is concerned. */
export interface Visit {
  /** Whose it is: one text for each connection. */
  readonly peer: string;
  /** It carries the right token. */
  readonly authorized: () => void;
  /** Its connection was ended, and nobody waits for an answer. */
  readonly isFlooding: boolean;
  /** Its connection ends once nothing is under way on it. */
  readonly leave: () => void;
  /** Its connection ends now, with all that is under way on it. */
  readonly flood: () => void;
  /** Its connection is in use until `settled` settles, too. */
  readonly until: (settled: Promise<unknown>) => void;
}

/** A visit by whom nothing is known. */
export const NO_VISIT: Visit = {
  peer: "",
  authorized: () => {},
  isFlooding: false,
  leave: () => {},
  flood: () => {},
  until: () => {},
};

/**
 * Keeps the number of connections and the time that each may be idle within limits: Deno's server knows none
 * (denoland/deno#34172). The core tells who is connected, the router who asks for something; {@link Clients} chooses.
 *
 * Invariant: once it follows a server, a timer is set while anybody can become overdue.
 */
export class ConnectionLimits implements Disposable {
  readonly #limits: ClientLimits;
  readonly #log: Log;
  readonly #roll: ConnectionRoll;
  #clients: Clients | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wakeMs = Infinity;
  #toldMs = -Infinity;
  #untold = 0;

  /** Limits nothing before it follows a server; calls `onChange` when clients have come or gone. */
  constructor(core: Core, limits: ClientLimits, log: Log, onChange: () => void) {
    this.#limits = limits;
    this.#log = log;
    this.#roll = new ConnectionRoll(core, () => {
      this.#changed();
      onChange();
    });
  }

  /** A server listens on `address` from now on. */
  follow(address: ListenAddress): void {
    const transport = "cid" in address ? "vsock" : "tcp";
    const most = this.#limits.maxConnections;
    const maxConnections = this.#roll.follow(transport, address.port, most);
    this.#clients ??= new Clients({ ...this.#limits, maxConnections });
  }

  /** A request has come, and is under way until `completed` settles. */
  enter(from: Deno.Addr, completed: Promise<unknown>): Visit {
    const clients = this.#clients;
    if (clients === undefined) return NO_VISIT;
    const peer = peerOf(clientOf(from));
    const client = clients.begin(peer);
    const end = (): void => {
      clients.end(client, performance.now());
      // All others become overdue later than those who ended before.
      if (client.leaving || this.#timer === undefined) this.#sleep();
    };
    completed.then(end, end);
    return {
      peer,
      authorized: () => void (client.authorized = true),
      isFlooding: client.flooding,
      leave: () => void (client.leaving = true),
      flood: () => {
        client.flooding = client.leaving = true;
        this.#expel([...client.cookies]);
      },
      until: (settled) => {
        clients.begin(peer);
        settled.then(end, end);
      },
    };
  }

  /** Ends no connection any more. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#clients = undefined;
  }

  #changed(): void {
    const nowMs = performance.now();
    for (const { cookie, peer } of this.#roll.changes()) {
      if (peer === undefined) this.#clients?.left(cookie);
      else if (this.#clients?.came(cookie, peer, nowMs)) this.#expel([cookie]);
    }
    if (this.#clients?.isFull) this.#look();
    else this.#sleep();
  }

  #look(): void {
    clearTimeout(this.#timer);
    [this.#timer, this.#wakeMs] = [undefined, Infinity];
    const overdue = this.#clients?.overdue(performance.now()) ?? [];
    this.#expel(overdue);
    this.#sleep();
  }

  #expel(cookies: readonly bigint[]): void {
    for (const cookie of cookies) this.#roll.expel(cookie);
    this.#untold += cookies.length;
    this.#tell();
  }

  #sleep(): void {
    const wakeMs = (this.#clients?.dueMs ?? Infinity) + TOGETHER_MS;
    // One that is set for earlier finds out by itself that nobody is overdue.
    if (wakeMs >= this.#wakeMs) return;
    clearTimeout(this.#timer);
    this.#wakeMs = wakeMs;
    this.#timer = setTimeout(() => this.#look(), Math.max(0, wakeMs - performance.now()));
    Deno.unrefTimer(this.#timer);
  }

  #tell(): void {
    const nowMs = performance.now();
    if (this.#untold === 0 || nowMs - this.#toldMs < TELL_MS) return;
    this.#log.info("connections were ended: idle for too long, or too many", {
      connections: this.#untold,
    });
    [this.#toldMs, this.#untold] = [nowMs, 0];
  }
}
