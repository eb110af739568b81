/** A bare TCP connection, read at the test's own pace: what a proper client would not send, show or leave unread. */

import { PATIENCE_MS, within } from "./await_event.ts";
import { asLatin1, indexOf, latin1 } from "./bytes.ts";

/**
 * One end of a connection. Invariant: `#buffer` from `#start` to `#end` holds the bytes that arrived and nobody has
 * claimed yet; after the peer's end `#over` says how that was and no more arrive.
 */
export class BareSocket implements Disposable {
  readonly socket: Deno.TcpConn;
  /** How long the peer may take to read on, or to say more. */
  patienceMs: number = PATIENCE_MS;
  #buffer = new Uint8Array(64 * 1024);
  #start = 0;
  #end = 0;
  #over: "end" | "reset" | undefined;

  constructor(socket: Deno.TcpConn) {
    this.socket = socket;
    socket.setNoDelay(true);
  }

  /** Connects to a port of 127.0.0.1. */
  static async dial(port: number): Promise<Deno.TcpConn> {
    return await Deno.connect({ hostname: "127.0.0.1", port });
  }

  /** Sends bytes, or strings of one char a byte. */
  async send(...pieces: readonly (string | Uint8Array)[]): Promise<void> {
    for (const piece of pieces) {
      let rest = typeof piece === "string" ? latin1(piece) : piece;
      while (rest.length > 0) {
        const write = this.socket.write(rest);
        rest = rest.subarray(await within("the peer to read", write, this.patienceMs));
      }
    }
  }

  /** So many bytes; null where the peer's end comes first. */
  async whole(size: number): Promise<Uint8Array<ArrayBuffer> | null> {
    while (this.#end - this.#start < size) if (!await this.#read()) return null;
    return this.#claim(size);
  }

  /** Exactly so many bytes. */
  async bytes(size: number): Promise<Uint8Array<ArrayBuffer>> {
    const whole = await this.whole(size);
    if (whole !== null) return whole;
    throw new Error(`Cannot read ${size} bytes: the peer closed after ${this.#end - this.#start}`);
  }

  /** Exactly so many bytes, as text. */
  async text(size: number): Promise<string> {
    return new TextDecoder().decode(await this.bytes(size));
  }

  /** Everything up to and with `end`, one char a byte. */
  async through(end: string): Promise<string> {
    const wanted = latin1(end);
    for (;;) {
      const live = this.#buffer.subarray(this.#start, this.#end);
      const at = indexOf(live, wanted);
      if (at !== -1) return asLatin1(this.#claim(at + wanted.length));
      if (!await this.#read()) {
        throw new Error(`Cannot read on: the peer closed after ${JSON.stringify(asLatin1(live))}`);
      }
    }
  }

  /** Bytes that arrived after what was asked for so far, waiting for at least one; empty at the end. */
  async more(): Promise<Uint8Array<ArrayBuffer>> {
    await this.arrival();
    return this.#claim(this.#end - this.#start);
  }

  /** Waits for the peer's end and tells how it was; throws if anything else comes first. */
  async ending(): Promise<"end" | "reset"> {
    const stray = await this.more();
    if (this.#over !== undefined) return this.#over;
    throw new Error(`Cannot see the end: ${stray.length} bytes came instead`);
  }

  /** Waits until something has arrived that was not asked for so far, or the peer's end. */
  async arrival(): Promise<void> {
    if (this.#start === this.#end) await this.#read();
  }

  /** Reads once; false at the end. */
  async #read(): Promise<boolean> {
    if (this.#over !== undefined) return false;
    this.#makeRoom();
    const read = this.socket.read(this.#buffer.subarray(this.#end));
    try {
      const count = await within("more bytes", read, this.patienceMs);
      if (count === null) this.#over = "end";
      else this.#end += count;
    } catch (error) {
      const { BrokenPipe, ConnectionReset } = Deno.errors;
      if (!(error instanceof ConnectionReset || error instanceof BrokenPipe)) throw error;
      this.#over = "reset";
    }
    return this.#over === undefined;
  }

  #makeRoom(): void {
    if (this.#end < this.#buffer.length && this.#start < this.#end) return;
    const live = this.#buffer.subarray(this.#start, this.#end);
    const larger = live.length > this.#buffer.length / 2;
    if (larger) this.#buffer = new Uint8Array(this.#buffer.length * 2);
    this.#buffer.set(live);
    this.#end = live.length;
    this.#start = 0;
  }

  #claim(size: number): Uint8Array<ArrayBuffer> {
    this.#start += size;
    return this.#buffer.slice(this.#start - size, this.#start);
  }

  /** Closes without a word, in mid-request or mid-answer if need be. */
  [Symbol.dispose](): void {
    try {
      this.socket.close();
    } catch {
      // Already closed.
    }
  }
}
