import type { ListenAddress } from "../settings.ts";
import type { Log } from "../log.ts";
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
  readonly #onListen: (port: number) => void;
  #address: ListenAddress;
  #server: Deno.HttpServer<Deno.NetAddr> | undefined;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #restMs = FIRST_REST_MS;
  #sinceMs = 0;
  #closed = false;

  /** A listener that does not listen yet; `onListen` is told the port each time that it does. */
  constructor(
    address: ListenAddress,
    router: Router,
    log: Log,
    onListen: (port: number) => void,
  ) {
    this.#onListen = onListen;
    this.#address = address;
    this.#router = router;
    this.#log = log;
  }

  /** The port; before it listens, the one that is asked for. */
  get port(): number {
    return this.#address.port;
  }

  /** Listens; throws when the address cannot be had. */
  listen(): void {
    const { serve, onError } = this.#router;
    const server = this.#server = Deno.serve({
      ...this.#address,
      onError,
      onListen: ({ hostname, port }) => {
        this.#address = { hostname: this.#address.hostname, port };
        this.#onListen(port);
        this.#log.info("listening", { hostname, port });
      },
    }, serve);
    this.#sinceMs = performance.now();
    server.finished.catch(() => this.#failed());
  }

  /** Accepts no more; ends when every request that was accepted is answered. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#rest);
    await this.#server?.shutdown();
  }

  #failed(): void {
    if (this.#closed) return;
    if (performance.now() - this.#sinceMs > RECOVERED_MS) this.#restMs = FIRST_REST_MS;
    this.#log.error("cannot accept connections: listening again", { port: this.#address.port });
    this.#again();
  }

  #again(): void {
    this.#rest = setTimeout(() => {
      try {
        this.listen();
      } catch {
        // Still no descriptor, or the port was taken meanwhile: there is nothing else to be.
        this.#again();
      }
    }, this.#restMs);
    this.#restMs = Math.min(2 * this.#restMs, LONGEST_REST_MS);
  }
}
