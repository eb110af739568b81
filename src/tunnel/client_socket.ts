import type { ReadLoop } from "./pause.ts";
import type { Turns } from "./turns.ts";
import type { Verdict } from "./verdict.ts";

/** So many messages are taken in one turn of the event loop, for Deno may have thousands of small ones at hand. */
const TURN_MESSAGES = 64;
/** So many bytes are taken in one turn: what Deno has at hand may be megabytes, for which everybody else would wait. */
const TURN_BYTES = 64 * 1024;
/**
 * Where more than this waits for the client to take it, the guest is read no further, in bytes. Deno writes what waits in
 * one go, during which everybody else waits.
 */
const HIGH_BYTES = 256 * 1024;
/** Where less than this waits for the client, the guest is read on, in bytes. */
const LOW_BYTES = 128 * 1024;
/** The client's progress is looked for in so many turns of the event loop; a timer would halve what a fast one gets. */
const EAGER_TURNS = 64;
/** Behind the eager turns the next look comes after this part of the time that has passed. */
const PATIENCE = 1 / 8;
/** The longest time between two looks, in milliseconds: what is buffered lasts a fast client longer. */
const LONGEST_REST_MS = 50;

/** How a client left: with a close frame, without, or with something that is no WebSocket message. */
export type Departure = "closed" | "vanished" | "broken";

/** What a client does. */
export interface ClientEvents {
  /** It was told that its request is upgraded: from now on it can be sent something. */
  opened(): void;
  /** It sent a message. */
  message(data: ArrayBuffer | string): void;
  /** It is gone, or was let go; nothing comes any more. */
  gone(how: Departure): void;
}

/**
 * A client's WebSocket.
 *
 * Invariant: `#paused` is set exactly while Deno's loop does not read; nothing is asked of the WebSocket once `#gone`
 * is set, for it has no resource any more.
 */
export class ClientSocket {
  readonly #socket: WebSocket;
  readonly #loop: ReadLoop | undefined;
  readonly #turns: Turns;
  readonly #events: ClientEvents;
  #verdict: Verdict | undefined;
  #error: string | undefined;
  #messages = 0;
  #bytes = 0;
  #paused = false;
  #resuming = false;
  #gone = false;

  /** A socket that was just made: a message that finds no handler would be lost. */
  constructor(
    socket: WebSocket,
    loop: ReadLoop | undefined,
    turns: Turns,
    events: ClientEvents,
  ) {
    this.#socket = socket;
    this.#loop = loop;
    this.#turns = turns;
    this.#events = events;
    socket.onopen = (): void => {
      if (this.#verdict === undefined) events.opened();
      else this.#sendClose(this.#verdict);
    };
    socket.onmessage = ({ data }: MessageEvent<ArrayBuffer | string>): void => {
      if (this.#gone) return;
      events.message(data);
      this.#bytes += typeof data === "string" ? data.length : data.byteLength;
      if (++this.#messages >= TURN_MESSAGES || this.#bytes >= TURN_BYTES) this.#yield();
    };
    socket.onerror = (event): void => {
      this.#error = event instanceof ErrorEvent ? event.message : "";
      // The upgrade failed: no close will follow.
      if (socket.readyState === WebSocket.CONNECTING) this.#leave();
    };
    socket.onclose = (): void => this.#leave();
  }

  /** Whether the client has left. */
  get gone(): boolean {
    return this.#gone;
  }

  /** Whether its messages can be made to wait. */
  get pausable(): boolean {
    return this.#loop !== undefined;
  }

  /** Whether they do. */
  get paused(): boolean {
    return this.#paused;
  }

  /** Bytes that the kernel has not taken yet. */
  get unsent(): number {
    return this.#gone ? 0 : this.#socket.bufferedAmount;
  }

  /** Whether it has to take something before more is sent. */
  get full(): boolean {
    return this.unsent > HIGH_BYTES;
  }

  /** Sends a message, which is copied. */
  send(bytes: Uint8Array<ArrayBuffer>): void {
    if (!this.#gone && this.#verdict === undefined) this.#socket.send(bytes);
  }

  /** Reads no further than the message that is being handled. */
  pause(): void {
    if (this.#loop === undefined || this.#gone || this.#paused) return;
    this.#paused = true;
    this.#loop.pause();
  }

  /** Reads on, after everybody else had a turn. */
  resume(): void {
    if (!this.#paused || this.#resuming) return;
    this.#resuming = true;
    this.#turns.await(() => {
      this.#resuming = this.#paused = false;
      this.#messages = this.#bytes = 0;
      if (!this.#gone) this.#loop?.resume();
    });
  }

  /** Calls `then` once enough of what was sent is taken, or the client is gone. */
  whenTaken(then: () => void): void {
    const begun = performance.now();
    let turns = 0;
    const look = (): void => {
      if (this.unsent <= LOW_BYTES) return then();
      if (++turns < EAGER_TURNS) return void setImmediate(look);
      const rest = (performance.now() - begun) * PATIENCE;
      setTimeout(look, Math.min(rest, LONGEST_REST_MS));
    };
    setImmediate(look);
  }

  /** Sends a close frame; what the client says before it answers still comes. Only the first call counts. */
  close(verdict: Verdict): void {
    if (this.#gone || this.#verdict !== undefined) return;
    this.#verdict = verdict;
    if (this.#loop !== undefined) return this.#sendClose(verdict);
    // Deno's loop drops the socket with the next message behind `close`, and the frame with it if it was not sent by then.
    setImmediate(() => this.#sendClose(verdict));
  }

  /** Waits for no answer any more. */
  letGo(): void {
    if (this.#gone) return;
    this.#loop?.letGo();
    this.resume();
  }

  /** Lets everybody else have a turn. */
  #yield(): void {
    if (this.#paused) return;
    this.pause();
    this.resume();
  }

  #sendClose({ code, reason }: Verdict): void {
    if (this.#gone || this.#socket.readyState !== WebSocket.OPEN) return;
    this.#socket.close(code, reason);
    this.#loop?.readOn();
  }

  #leave(): void {
    if (this.#gone) return;
    this.#gone = true;
    const error = this.#error;
    this.#events.gone(
      error === undefined ? "closed" : LOST.test(error) ? "vanished" : "broken",
    );
  }
}

/** What Deno calls the end of a connection, and what the system calls its failures; any other error is of the frames. */
const LOST = /EOF|os error/;
