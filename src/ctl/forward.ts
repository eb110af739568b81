/** forward: local ports that lead to ports of the guest. */

import { type Guest, Identity, type Tunnel, TunnelClosed } from "../client/mod.ts";
import { type Common, guestOf, urlOf } from "./connection.ts";
import { Failure, failureOf } from "./failure.ts";

/** Options of forward. */
export interface ForwardOptions extends Common {
  /** File with the guest's identity. */
  readonly identity?: string;
}

/** How long a guest may say nothing to a program that has said its last, in milliseconds. */
const LAST_WORDS_MS = 10_000;
const BUFFER_BYTES = 256 * 1024;

/** Listens until an interrupt. */
export async function forward(words: readonly string[], options: ForwardOptions): Promise<number> {
  const ways = words.map(wayOf);
  const identity = options.identity === undefined ? undefined : load(options.identity);
  const guest = guestOf(options, true);
  // A wrong address or token is told now, not at the first connection.
  await guest.procs();
  const listeners = ways.map(({ hostname, local, port }) => {
    try {
      return { port, listener: Deno.listen({ hostname, port: local }) };
    } catch (error) {
      throw new Failure(`Cannot listen on ${hostname}:${local}: ${(error as Error).message}`);
    }
  });
  for (const { listener, port } of listeners) {
    const { hostname, port: local } = listener.addr;
    console.error(`guestctl: ${hostname}:${local} leads to port ${port} of the guest`);
  }
  const serving = listeners.map(async ({ listener, port }) => {
    for await (const connection of listener) {
      relay(guest, connection, port, identity).catch((error) => {
        const { message } = failureOf(error, urlOf(options));
        if (message !== "") console.error(`guestctl: ${message}`);
      });
    }
  });
  const { promise, resolve } = Promise.withResolvers<number>();
  for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129]] as const) {
    Deno.addSignalListener(signal, () => resolve(code));
  }
  return await Promise.race([promise, Promise.all(serving).then(() => 0)]);
}

/** One connection, to the end of both directions. */
async function relay(
  guest: Guest,
  connection: Deno.TcpConn,
  port: number,
  identity: Identity | undefined,
): Promise<void> {
  using _connection = closing(connection);
  connection.setNoDelay(true);
  const tunnel = await guest.connect(port, identity === undefined ? {} : { identity });
  let heard = performance.now();
  const down = (async (): Promise<void> => {
    for await (const bytes of tunnel.readable) {
      heard = performance.now();
      for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
    }
    connection.closeWrite();
  })();
  const up = pour(connection, tunnel, identity !== undefined);
  try {
    const ended = await Promise.race([down.then(() => "guest"), up.then(() => "program")]);
    // A plain tunnel has no half: what the guest still says is waited for, as long as it says something.
    while (ended === "program") {
      const rest = heard + LAST_WORDS_MS - performance.now();
      if (rest <= 0 || await Promise.race([down.then(() => true), after(rest)])) break;
    }
  } catch (error) {
    // That either end was reset is its own business, that nothing listens is not.
    if (error instanceof TunnelClosed && error.code !== 4500) throw error;
  } finally {
    down.catch(() => {});
    up.catch(() => {});
    tunnel.close();
  }
}

async function pour(connection: Deno.TcpConn, tunnel: Tunnel, halves: boolean): Promise<void> {
  const writer = tunnel.writable.getWriter();
  const buffer = new Uint8Array(BUFFER_BYTES);
  for (;;) {
    const size = await connection.read(buffer);
    if (size === null) break;
    await writer.write(buffer.subarray(0, size));
  }
  if (halves) await writer.close();
}

function after(ms: number): Promise<false> {
  return new Promise((resolve) => setTimeout(() => resolve(false), ms));
}

function closing(connection: Deno.TcpConn): Disposable {
  return {
    [Symbol.dispose](): void {
      try {
        connection.close();
      } catch {
        // Already closed.
      }
    },
  };
}

/** The way that [ADDRESS:]PORT:PORT spells; an address of IPv6 stands in brackets. */
function wayOf(
  word: string,
): { readonly hostname: string; readonly local: number; readonly port: number } {
  const [, address = "127.0.0.1", local, port] =
    /^(?:\[?([^\]]+)\]?:)?(\d{1,5}):(\d{1,5})$/.exec(word) ?? [];
  if (local === undefined || Number(local) > 65535 || Number(port) > 65535 || Number(port) === 0) {
    throw new Failure(`Cannot forward '${word}': a way is [ADDRESS:]PORT:PORT`);
  }
  return { hostname: address, local: Number(local), port: Number(port) };
}

function load(file: string): Identity {
  try {
    return Identity.from(JSON.parse(Deno.readTextFileSync(file)));
  } catch (error) {
    throw new Failure(`Cannot use the identity in ${file}: ${(error as Error).message}`);
  }
}
