import type { Socket } from "node:net";
import type { ConnectionEnds } from "../native/connections.ts";

/** The module that dials; it costs 5 MB, so it is loaded with the first tunnel. */
export type Net = typeof import("node:net");

/** Where guests listen. */
const HOST = "127.0.0.1";
/** How long a dial may take, in milliseconds. */
const DIAL_MS = 2000;

/** What a guest does. */
export interface GuestEvents {
  /** It has taken the dial. */
  dialled(ends: ConnectionEnds): void;
  /** It sent something, which is gone when this returns. */
  data(bytes: Uint8Array<ArrayBuffer>): void;
  /** It has taken what was written. */
  drained(): void;
  /** It takes no more; what it has sent before still comes. */
  deaf(): void;
  /** It sends no more. */
  ended(): void;
  /** It cannot be dialled, or its connection failed, with the system's code for why. */
  failed(cause: string, dialled: boolean): void;
  /** Its connection is gone, however it ended. */
  closed(): void;
}

/** A guest's port on 127.0.0.1, which is being dialled from the beginning. */
export class GuestSocket {
  readonly #socket: Socket;
  #dialled = false;

  /** Dials; a name is never resolved. */
  constructor(net: Net, port: number, events: GuestEvents) {
    let failure: string | undefined;
    const socket = this.#socket = makeSocket(net, (cause) => {
      // A broken pipe is the answer of a guest that had ended before. Of any other error the kernel tells once, and then
      // lets the reading side end as if nothing had happened.
      if (cause !== "EPIPE") failure = cause;
      events.deaf();
    });
    const fail = (cause: string): void => {
      clearTimeout(timer);
      events.failed(cause, this.#dialled);
    };
    const timer = setTimeout(() => {
      fail("ETIMEDOUT");
      socket.destroy();
    }, DIAL_MS);
    socket.on("connect", () => {
      const { localPort } = socket;
      // Without a listener, a dial whose own port happens to be the guest's meets itself.
      if (localPort === undefined || localPort === port) {
        fail("ECONNREFUSED");
        socket.destroy();
        return;
      }
      clearTimeout(timer);
      this.#dialled = true;
      events.dialled({ hostname: HOST, port, localPort });
    });
    socket.on("data", (chunk: Uint8Array<ArrayBuffer>) => {
      events.data(chunk);
      // A smaller one may lie in one buffer with others.
      if (chunk.buffer.byteLength === chunk.byteLength) free(chunk);
    });
    socket.on("drain", () => events.drained());
    socket.on("end", () => {
      if (failure === undefined) return events.ended();
      fail(failure);
      socket.destroy();
    });
    socket.on("error", (error) => fail(codeOf(error)));
    socket.on("close", () => {
      clearTimeout(timer);
      events.closed();
    });
    socket.setNoDelay(true);
    socket.connect({ host: HOST, port });
  }

  /** Bytes that the kernel has not taken yet. */
  get unwritten(): number {
    return this.#socket.writableLength;
  }

  /** Writes, and uses the whole buffer of the bytes up. False: more should wait for `drained`. */
  write(bytes: Uint8Array<ArrayBuffer>): boolean {
    return this.#socket.write(bytes, () => free(bytes));
  }

  /** Reads no more for now. */
  pause(): void {
    this.#socket.pause();
  }

  /** Reads on. */
  resume(): void {
    this.#socket.resume();
  }

  /** Ends what it is sent, behind all that was written. */
  end(): void {
    this.#socket.end();
  }

  /** Lets it see a reset. What it has not read yet may be lost. */
  reset(): void {
    if (this.#dialled) this.#socket.resetAndDestroy();
    else this.#socket.destroy();
  }

  /** Closes once all that was written is with the kernel. */
  close(): void {
    this.#socket.destroySoon();
  }

  /** Closes at once. */
  destroy(): void {
    this.#socket.destroy();
  }
}

/**
 * A socket whose failing write does not destroy it: a guest that closes over bytes that still come is answered by its
 * kernel with a reset, behind what it has said.
 */
function makeSocket(net: Net, onDeaf: (cause: string) => void): Socket {
  let deaf = false;
  type Done = (error?: Error | null) => void;
  const heard = (done: Done): Done => (error) => {
    if (error !== undefined && error !== null && !deaf) {
      deaf = true;
      onDeaf(codeOf(error));
    }
    done();
  };
  class HalfDeafSocket extends net.Socket {
    override _write(chunk: unknown, encoding: BufferEncoding, done: Done): void {
      if (deaf) done();
      else super._write(chunk, encoding, heard(done));
    }
    override _writev(chunks: { chunk: unknown; encoding: BufferEncoding }[], done: Done): void {
      if (deaf) done();
      else super._writev?.(chunks, heard(done));
    }
  }
  return new HalfDeafSocket({ allowHalfOpen: true });
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}

/** Frees a buffer now: at a gigabyte a second the collector would come too late. */
function free({ buffer }: Uint8Array<ArrayBuffer>): void {
  buffer.transfer(0);
}
