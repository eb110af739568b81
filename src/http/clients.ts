/** How many clients there may be, and how long they may take. */
export interface ClientLimits {
  /** Most connections. */
  readonly maxConnections: number;
  /** How long a connection's first request may take to come, in milliseconds. */
  readonly requestMs: number;
  /** How long a connection may be idle behind a request, in milliseconds. */
  readonly idleMs: number;
}

/** How long a client is remembered whose connection is not on the roll (yet), in milliseconds: many looks take place meanwhile. */
const UNSEEN_MS = 5000;

/** This part of the connections is for those who never sent the right token, also where all others did. */
const NEWCOMERS = 16;

/** Clients that ask for nothing, in the order in which they began to. */
export type Waiting = Map<string, Client>;

/** Who has the same address and port. */
export interface Client {
  /** Its address and port, as one text. */
  readonly peer: string;
  /** Its connections on the roll: one, but for the moment in which a port is used again. */
  readonly cookies: Set<bigint>;
  /** Whether it ever sent the right token. */
  authorized: boolean;
  /** How much of what it asked for is under way. */
  inFlight: number;
  /** Whether it is to go as soon as nothing is. */
  leaving: boolean;
  /** Whether its connection was ended because it asks for too much: what it asked for besides is not worth an answer. */
  flooding: boolean;
  /** Since when nothing is, in milliseconds. */
  sinceMs: number;
  /** The queue that it is in. */
  waiting: Waiting | undefined;
}

/**
 * Who is connected, and who is to go. Nothing here takes longer because there are many.
 *
 * Invariants: a client that is in `#byPeer` is in exactly one of the queues while nothing of it is in flight, and in none otherwise; in `#unseen`
 * if it has no connection on the roll, in `#fresh` if it never asked for anything, else where `#queueOf` says. What
 * stands first in a queue has been there longest. `#byCookie` has the connections on the roll that were not told to go.
 */
export class Clients {
  readonly #limits: ClientLimits;
  readonly #byPeer = new Map<string, Client>();
  readonly #byCookie = new Map<bigint, Client>();
  readonly #unseen: Waiting = new Map();
  readonly #leaving: Waiting = new Map();
  readonly #fresh: Waiting = new Map();
  readonly #strangers: Waiting = new Map();
  readonly #known: Waiting = new Map();

  /** Nobody is connected. */
  constructor(limits: ClientLimits) {
    this.#limits = limits;
  }

  /** A connection was seen; whether it is one that floods, which was not on the roll yet and has to go now. */
  came(cookie: bigint, peer: string, nowMs: number): boolean {
    let client = this.#byPeer.get(peer);
    if (client === undefined) {
      client = this.#meet(peer);
      this.#wait(client, this.#fresh, nowMs);
    } else if (client.waiting === this.#unseen) {
      this.#wait(client, this.#queueOf(client), client.sinceMs);
    }
    const floods = client.flooding && client.cookies.size === 0;
    // Whoever uses the port of one that is ended does not.
    if (!floods) client.flooding = false;
    client.cookies.add(cookie);
    this.#byCookie.set(cookie, client);
    return floods;
  }

  /** A connection is gone. */
  left(cookie: bigint): void {
    const client = this.#byCookie.get(cookie);
    this.#byCookie.delete(cookie);
    client?.cookies.delete(cookie);
    if (client?.cookies.size === 0 && client.inFlight === 0) this.#forget(client);
  }

  /** A client asks for something; what it is given ends with {@link end}. */
  begin(peer: string): Client {
    const client = this.#byPeer.get(peer) ?? this.#meet(peer);
    client.waiting?.delete(peer);
    client.waiting = undefined;
    client.inFlight++;
    return client;
  }

  /** What a client asked for is over. */
  end(client: Client, nowMs: number): void {
    if (--client.inFlight > 0 || this.#byPeer.get(client.peer) !== client) return;
    this.#wait(client, client.cookies.size === 0 ? this.#unseen : this.#queueOf(client), nowMs);
  }

  /** The connections that have to go now, which are counted as gone from then on. */
  overdue(nowMs: number): bigint[] {
    for (const client of this.#unseen.values()) {
      if (client.sinceMs + UNSEEN_MS > nowMs) break;
      this.#forget(client);
    }
    const overdue: bigint[] = [];
    for (const [queue, ms] of this.#queues()) {
      for (const client of queue.values()) {
        if (client.sinceMs + ms > nowMs) break;
        overdue.push(...this.#expel(client));
      }
    }
    while (this.isFull) {
      const longest = this.#longestIdle();
      if (longest === undefined) break;
      overdue.push(...this.#expel(longest));
    }
    return overdue;
  }

  /** Whether there are too many. */
  get isFull(): boolean {
    return this.#byCookie.size > this.#limits.maxConnections;
  }

  /** When there will be somebody overdue, if nobody comes, asks or leaves; undefined where there is nobody to wait for. */
  get dueMs(): number | undefined {
    const due = [...this.#queues(), [this.#unseen, UNSEEN_MS] as const].map(([queue, ms]) => {
      return (first(queue)?.sinceMs ?? Infinity) + ms;
    });
    const earliest = Math.min(...due);
    return earliest === Infinity ? undefined : earliest;
  }

  /**
   * Of those who never sent the right token whoever is idle longest, then of the others. A few of the first have room all
   * the same: whoever has just come has had no time to send it.
   */
  #longestIdle(): Client | undefined {
    const [fresh, stranger, known] = [this.#fresh, this.#strangers, this.#known].map(first);
    const few = this.#fresh.size + this.#strangers.size <= this.#limits.maxConnections / NEWCOMERS;
    if (few && known !== undefined) return known;
    if (fresh === undefined || stranger === undefined) {
      return fresh ?? stranger ?? known;
    }
    return fresh.sinceMs < stranger.sinceMs ? fresh : stranger;
  }

  /** Where a client waits that has asked for something. */
  #queueOf({ leaving, authorized }: Client): Waiting {
    if (leaving) return this.#leaving;
    return authorized ? this.#known : this.#strangers;
  }

  #queues(): readonly (readonly [queue: Waiting, ms: number])[] {
    const { requestMs, idleMs } = this.#limits;
    return [
      [this.#leaving, 0],
      [this.#fresh, requestMs],
      [this.#strangers, idleMs],
      [this.#known, idleMs],
    ];
  }

  #meet(peer: string): Client {
    const client: Client = {
      peer,
      cookies: new Set(),
      authorized: false,
      inFlight: 0,
      leaving: false,
      flooding: false,
      sinceMs: 0,
      waiting: undefined,
    };
    this.#byPeer.set(peer, client);
    return client;
  }

  #wait(client: Client, queue: Waiting, sinceMs: number): void {
    client.waiting?.delete(client.peer);
    client.waiting = queue;
    client.sinceMs = sinceMs;
    queue.set(client.peer, client);
  }

  #expel(client: Client): readonly bigint[] {
    const cookies = [...client.cookies];
    for (const cookie of cookies) this.#byCookie.delete(cookie);
    client.cookies.clear();
    this.#forget(client);
    return cookies;
  }

  #forget(client: Client): void {
    client.waiting?.delete(client.peer);
    client.waiting = undefined;
    this.#byPeer.delete(client.peer);
  }
}

function first(queue: Waiting): Client | undefined {
  return queue.values().next().value;
}
