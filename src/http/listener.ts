import type { Log, LogFields } from "../log.ts";
import { addressText, type ListenAddress } from "../settings.ts";
import type { Router } from "./router.ts";

/** How long a listener that failed rests at first before it listens again, in milliseconds. */
const FIRST_REST_MS = 25;
/** How long it rests at most, however often it fails, in milliseconds. */
const LONGEST_REST_MS = 1600;
/** One that lasted so long had recovered. */
const RECOVERED_MS = 10_000;

/**
 * Listens as long as the daemon lives. Deno closes a server's socket for good when accepting fails
 * once, as it does while the process has no free descriptor; the guest would have lost its only
 * control API although nothing else is wrong.
 *
 * Invariant: unless closed, there is a server that listens or a timer that will try again; a port
 * that the system chose is kept.
 */
export class Listener {
  readonly #router: Router;
  readonly #log: Log;
  readonly #onListen: (address: ListenAddress) => void;
  #address: ListenAddress;
  #server: Deno.HttpServer | undefined;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #restMs = FIRST_REST_MS;
  #sinceMs = 0;
  #closed = false;

  /** A listener that does not listen yet; `onListen` is told the address each time that it does. */
  constructor(
    address: ListenAddress,
    router: Router,
    log: Log,
    onListen: (address: ListenAddress) => void,
  ) {
    this.#onListen = onListen;
    this.#address = address;
    this.#router = router;
    this.#log = log;
  }

  /** The address; before it listens, the one that is asked for. */
  get address(): ListenAddress {
    return this.#address;
  }

  /** Whether there is a server that listens. */
  get listens(): boolean {
    return this.#server !== undefined;
  }

  /** Listens; throws when the address cannot be had. */
  listen(): void {
    const { serve, onError } = this.#router;
    const asked = this.#address;
    const listens = (address: ListenAddress, where: LogFields): void => {
      this.#address = address;
      this.#onListen(address);
      this.#log.info("listening", where);
    };
    const server: Deno.HttpServer = "hostname" in asked
      ? Deno.serve({
        ...asked,
        onError,
        onListen: ({ hostname, port }) => listens({ ...asked, port }, { hostname, port }),
      }, serve)
      : Deno.serve({
        ...asked,
        onError,
        onListen: () => listens(asked, { vsock: addressText(asked), port: asked.port }),
      }, serve);
    this.#server = server;
    this.#sinceMs = performance.now();
    server.finished.catch(() => this.#failed());
  }

  /** Accepts no more; ends when every request that was accepted is answered. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#rest);
    await this.#server?.shutdown();
  }

  /** Listens as soon as the address can be had. */
  listenLater(): void {
    this.#rest = setTimeout(() => {
      try {
        this.listen();
      } catch {
        // Still no descriptor, or the port was taken meanwhile: there is nothing else to be.
        this.listenLater();
      }
    }, this.#restMs);
    this.#restMs = Math.min(2 * this.#restMs, LONGEST_REST_MS);
  }

  #failed(): void {
    if (this.#closed) return;
    if (performance.now() - this.#sinceMs > RECOVERED_MS) this.#restMs = FIRST_REST_MS;
    this.#log.error("cannot accept connections: listening again", {
      address: addressText(this.#address),
    });
    this.listenLater();
  }
}
