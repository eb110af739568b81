/** Connecting to a guest without a network, as its host does. */

import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { GuestError, ProtocolViolation, Unreachable } from "./errors.ts";
import type { VsockAddress } from "./vsock.ts";

/** The longest that a VMM agrees with, in characters: `OK 4294967295`. */
const MAX_ANSWER = 13;
const NEWLINE = 10;
/** How long it may take to agree, in milliseconds. */
const ANSWER_MS = 10_000;

/**
 * Connects, unless the signal aborts first. Rejects with `Unreachable`, or `ProtocolViolation` where a path leads to no VMM.
 */
export async function dial(address: VsockAddress, signal?: AbortSignal): Promise<Duplex> {
  const way = "path" in address ? `through ${address.path}` : `of context ${address.cid}`;
  try {
    signal?.throwIfAborted();
    const socket = "path" in address ? await dialHost(address, signal) : await dialContext(address);
    if (!signal?.aborted) return socket;
    socket.destroy();
    throw signal.reason;
  } catch (cause) {
    if (cause instanceof ProtocolViolation) throw cause;
    const said = cause instanceof GuestError ? cause.message : `the connection failed: ${cause}`;
    throw new Unreachable(`Cannot reach vsock port ${address.port} ${way}: ${said}`, { cause });
  }
}

/** Firecracker's handshake, which others took over: one line each way, and then the guest's bytes. */
async function dialHost(
  { path, port }: { path: string; port: number },
  signal: AbortSignal | undefined,
): Promise<Duplex> {
  const { connect } = await import("node:net");
  const socket = connect({ path });
  const aborted = (): void => void socket.destroy(signal?.reason);
  signal?.addEventListener("abort", aborted, { once: true });
  try {
    socket.write(`CONNECT ${port}\n`);
    const answer = await firstLine(socket);
    if (/^OK [0-9]+$/.test(answer)) return socket;
    throw new ProtocolViolation(
      `Cannot reach vsock port ${port} through ${path}: it answered ${
        JSON.stringify(answer)
      }, and not OK: it is no socket of a VMM's vsock`,
    );
  } catch (cause) {
    socket.destroy();
    throw cause;
  } finally {
    signal?.removeEventListener("abort", aborted);
  }
}

/** Takes no byte behind the line. */
async function firstLine(socket: Socket): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let text = "";
  const read = (): void => {
    for (let byte = socket.read(1); byte !== null; byte = socket.read(1)) {
      if (byte[0] === NEWLINE) return resolve(text);
      text += String.fromCharCode(byte[0]);
      if (text.length > MAX_ANSWER) return resolve(text);
    }
  };
  const closed = (): void => {
    reject(new GuestError("the VMM closed it in mid-handshake: does the guest listen there?"));
  };
  const silent = (): void => {
    reject(new GuestError(`the VMM has not answered within ${ANSWER_MS / 1000} s`));
  };
  const timer = setTimeout(silent, ANSWER_MS);
  const listeners = Object.entries({ readable: read, end: closed, close: closed, error: reject });
  for (const [event, listener] of listeners) socket.on(event, listener);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    for (const [event, listener] of listeners) socket.off(event, listener);
  }
}

/** What of Deno is needed, where there is one. */
interface Runtime {
  readonly Deno?: {
    connect(
      to: { readonly transport: "vsock"; readonly cid: number; readonly port: number },
    ): Promise<{ readonly readable: ReadableStream; readonly writable: WritableStream }>;
  };
}

async function dialContext({ cid, port }: { cid: number; port: number }): Promise<Duplex> {
  const runtime = (globalThis as unknown as Runtime).Deno;
  if (runtime === undefined) {
    throw new GuestError(
      "only Deno, with --unstable-vsock, has vsock; vsock-unix: goes everywhere",
    );
  }
  const { Duplex } = await import("node:stream");
  return Duplex.fromWeb(await runtime.connect({ transport: "vsock", cid, port }) as never);
}
