import type { TunnelQuery } from "../contract/tunnel.ts";
import { type ConnectionEnds, WatchedConnection } from "../native/connections.ts";
import type { Core } from "../native/core.ts";
import { NoiseRefused } from "../native/noise.ts";
import { type Channel, PLAIN, Proof } from "./channel.ts";
import { ClientSocket, type Departure } from "./client_socket.ts";
import { GuestSocket, type Net } from "./guest_socket.ts";
import { Patience, STALL_MS } from "./patience.ts";
import type { ReadLoop } from "./pause.ts";
import type { Turns } from "./turns.ts";
import {
  dialFailed,
  GUEST_ENDED,
  guestFailed,
  HANDSHAKE_REFUSED,
  MESSAGE_BROKEN,
  QUEUE_FULL,
  type Verdict,
} from "./verdict.ts";

/** How long a client may take to prove itself, in milliseconds. */
const PROOF_MS = 5000;
/** From a close frame until its answer is given up, and from a guest's end until its own, in milliseconds. */
const CLOSE_MS = 5000;
/** A client that sent something so lately has more to send, in milliseconds. */
const SENDING_MS = 1000;
/** What may wait for a guest where the client's messages cannot be made to wait, in bytes. */
const QUEUE_BYTES = 8 << 20;

/** What a relay is made with. */
export interface RelayOptions {
  /** Has the keys, and looks at the connections. */
  readonly core: Core;
  /** Dials. */
  readonly net: Net;
  /** The client's WebSocket, just made. */
  readonly socket: WebSocket;
  /** What can make it wait. */
  readonly loop: ReadLoop | undefined;
  /** When it goes on that waited. */
  readonly turns: Turns;
  /** The ends of its connection. */
  readonly ends: ConnectionEnds;
  /** Where it leads. */
  readonly query: TunnelQuery;
  /** Why it is to be closed at once, if it is. */
  readonly refusal: Verdict | undefined;
  /** Told once, with why the relay ends; undefined where the client left by itself. */
  readonly onEnd: (verdict: Verdict | undefined) => void;
}

/**
 * One tunnel: a client's WebSocket, what its messages mean, and the guest's connection.
 *
 * Invariant: `#up` is what becomes of the client's messages and `#down` whether the guest's bytes are sent on; both only
 * ever end. `#guest` is there from the dial until its connection is gone.
 */
export class Relay {
  /** Settles once both connections are gone. */
  readonly gone: Promise<void>;
  readonly #options: RelayOptions;
  readonly #gone = Promise.withResolvers<void>();
  readonly #client: ClientSocket;
  readonly #clientWatch: WatchedConnection;
  readonly #waits = new DisposableStack();
  #proof: Proof | undefined;
  #proofTimer: ReturnType<typeof setTimeout> | undefined;
  #channel: Channel = PLAIN;
  #guest: GuestSocket | undefined;
  #guestWatch: WatchedConnection | undefined;
  #clientPatience: Patience | undefined;
  #up: "relayed" | "ended" | "dropped" = "relayed";
  #down = true;
  #ended = false;

  /** Begins. */
  constructor(options: RelayOptions) {
    const { core, socket, loop, turns, ends } = this.#options = options;
    this.gone = this.#gone.promise;
    this.#client = new ClientSocket(socket, loop, turns, {
      opened: () => this.#begin(),
      message: (data) => this.#message(data),
      gone: (how) => this.#clientGone(how),
    });
    this.#clientWatch = this.#waits.use(
      WatchedConnection.watch(core, ends, () => this.#clientChanged()),
    );
  }

  /** Ends it because the daemon does: the guest gets what was written, and is not waited for. */
  stop(verdict: Verdict): void {
    this.#end(verdict);
    if (this.#isCutShort()) this.#cutShort();
    else this.#guest?.close();
  }

  #begin(): void {
    const { core, query, refusal } = this.#options;
    if (refusal !== undefined) {
      this.#end(refusal);
    } else if (query.identity) {
      this.#proof = this.#waits.use(new Proof(core, query.port));
      this.#proofTimer = setTimeout(() => this.#end(HANDSHAKE_REFUSED), PROOF_MS);
    } else {
      this.#dial(PLAIN);
    }
  }

  #message(data: ArrayBuffer | string): void {
    if (this.#up === "dropped") return;
    if (this.#proof !== undefined) return this.#prove(this.#proof, data);
    try {
      const bytes = this.#channel.open(data);
      // Behind the agreed end nothing may come.
      if (this.#up === "ended") throw new NoiseRefused();
      if (bytes.length > 0) this.#write(bytes);
      else if (this.#channel.ends) this.#clientEnded();
    } catch (error) {
      if (!(error instanceof NoiseRefused)) throw error;
      this.#guest?.reset();
      this.#end(MESSAGE_BROKEN);
    }
  }

  #prove(proof: Proof, data: ArrayBuffer | string): void {
    try {
      const channel = proof.take(data, (answer) => this.#client.send(answer));
      if (channel !== undefined) this.#dial(channel);
    } catch (error) {
      if (!(error instanceof NoiseRefused)) throw error;
      this.#end(HANDSHAKE_REFUSED);
    }
  }

  #dial(channel: Channel): void {
    clearTimeout(this.#proofTimer);
    this.#proof = undefined;
    this.#channel = this.#waits.use(channel);
    const { core, net, query: { port } } = this.#options;
    this.#guest = new GuestSocket(net, port, {
      dialled: (ends) => {
        this.#guestWatch = this.#waits.use(WatchedConnection.watch(core, ends, () => {}));
      },
      data: (bytes) => this.#send(bytes),
      drained: () => this.#client.resume(),
      deaf: () => {
        this.#up = "dropped";
        this.#client.resume();
      },
      ended: () => this.#guestEnded(),
      failed: (cause, dialled) => {
        this.#end(dialled ? guestFailed(port, cause) : dialFailed(port, cause));
      },
      closed: () => this.#guestGone(),
    });
  }

  #write(bytes: Uint8Array<ArrayBuffer>): void {
    const guest = this.#guest;
    if (guest === undefined || guest.write(bytes)) return;
    if (this.#client.pausable) {
      this.#client.pause();
    } else if (guest.unwritten > QUEUE_BYTES) {
      guest.reset();
      this.#end(QUEUE_FULL);
    }
  }

  #send(bytes: Uint8Array<ArrayBuffer>): void {
    if (!this.#down) return;
    this.#channel.seal(bytes, (message) => this.#client.send(message));
    if (!this.#client.full) return;
    this.#guest?.pause();
    this.#client.whenTaken(() => this.#guest?.resume());
  }

  /** Half an end: the guest may still answer. */
  #clientEnded(): void {
    this.#up = "ended";
    this.#guest?.end();
  }

  #guestEnded(): void {
    if (this.#down && this.#channel.ends) {
      this.#channel.seal(new Uint8Array(), (message) => this.#client.send(message));
    }
    this.#down = false;
    this.#end(GUEST_ENDED);
  }

  /** Tells the client why, and waits for its answer. Behind a guest's end it may still send. */
  #end(verdict: Verdict): void {
    this.#down = false;
    if (verdict !== GUEST_ENDED) {
      if (this.#up === "relayed") this.#up = "dropped";
      this.#client.resume();
    }
    if (this.#client.gone || this.#ended) return;
    this.#tell(verdict);
    clearTimeout(this.#proofTimer);
    this.#client.close(verdict);
    this.#clientPatience = this.#waits.use(
      new Patience({
        facts: () => this.#clientWatch.facts,
        unwritten: () => this.#client.unsent,
        graceMs: CLOSE_MS,
        over: () => this.#clientLate(),
      }),
    );
  }

  /** The client does not answer the close frame. What is cut now must not look whole. */
  #clientLate(): void {
    const sending = (this.#clientWatch.facts?.cameMs ?? 0) < SENDING_MS || this.#client.paused;
    const waits = (this.#guest?.unwritten ?? 0) + (this.#guestWatch?.facts?.unacknowledged ?? 0);
    if (sending || waits > 0 || this.#isCutShort()) this.#guest?.reset();
    else this.#guest?.destroy();
    this.#giveUpClient();
  }

  #giveUpClient(): void {
    this.#up = "dropped";
    this.#client.letGo();
    this.#clientWatch.end();
  }

  /** A client that was made to wait cannot tell Deno's loop that it is gone. */
  #clientChanged(): void {
    const facts = this.#clientWatch.facts;
    if (facts === undefined || facts.reset) {
      if (!this.#client.paused) return;
      this.#guest?.reset();
      this.#giveUpClient();
    } else if (facts.ended) {
      this.#awaitGuest(STALL_MS, () => {
        this.#guest?.reset();
        this.#giveUpClient();
      });
    }
  }

  #clientGone(how: Departure): void {
    this.#tell(undefined);
    clearTimeout(this.#proofTimer);
    this.#clientPatience?.[Symbol.dispose]();
    this.#down = false;
    // Whoever leaves now may have left bytes behind that nobody reads.
    this.#clientWatch.end();
    if (how === "broken") {
      this.#guest?.reset();
    } else if (this.#isCutShort()) {
      this.#cutShort();
    } else {
      this.#up = "dropped";
      this.#guest?.end();
      this.#awaitGuest(CLOSE_MS, (taken) => {
        if (taken) this.#guest?.destroy();
        else this.#guest?.reset();
      });
    }
    this.#settle();
  }

  /** Where both agreed to say when they are done, a client that did not has been cut off. */
  #isCutShort(): boolean {
    return this.#channel.ends && this.#up !== "ended";
  }

  /** The guest must not take what it got for the whole, but it may have that. */
  #cutShort(): void {
    this.#up = "dropped";
    this.#awaitGuest(0, () => this.#guest?.reset());
  }

  #awaitGuest(graceMs: number, over: (taken: boolean) => void): void {
    if (this.#waits.disposed) return;
    this.#waits.use(
      new Patience({
        facts: () => this.#guestWatch?.facts,
        unwritten: () => this.#guest?.unwritten ?? 0,
        graceMs,
        over,
      }),
    );
  }

  #guestGone(): void {
    this.#guest = undefined;
    this.#client.resume();
    this.#settle();
  }

  #settle(): void {
    if (!this.#client.gone || this.#guest !== undefined) return;
    this.#waits.dispose();
    this.#gone.resolve();
  }

  #tell(verdict: Verdict | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#options.onEnd(verdict);
  }
}
