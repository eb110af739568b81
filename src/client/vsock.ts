/** The way to a guest without a network: its vsock, as its host reaches it. */

import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { GuestError, ProtocolViolation, Unreachable } from "./errors.ts";

/** A port of a guest's vsock. */
export type VsockAddress =
  & {
    /** The port, of 32 bits. */
    readonly port: number;
  }
  & ({
    /** The Unix socket by which the VMM lets its host connect: Firecracker's, Cloud Hypervisor's, vhost-device-vsock's. */
    readonly path: string;
  } | {
    /** The guest's context id, where the host's kernel has vsock: QEMU's vhost-vsock, crosvm's. */
    readonly cid: number;
  });

/** The longest that a VMM agrees with, in characters: `OK 4294967295`. */
const MAX_ANSWER = 13;
const NEWLINE = 10;

/**
 * Reads `vsock-unix:PATH:PORT` and `vsock:CID:PORT`; undefined for any other scheme. Throws a TypeError for one of these
 * that names no such place.
 */
export function vsockAddress(url: string): VsockAddress | undefined {
  if (!/^vsock(-unix)?:/.test(url)) return undefined;
  const form = /^vsock(?:-unix:(.+)|:([0-9]{1,10})):([0-9]{1,10})$/;
  const [, path, cid = "1", digits] = form.exec(url) ?? [];
  const [port, id] = [Number(digits), Number(cid)];
  // The highest of 32 bits stands for any.
  if ([port, id].every((number) => number >= 1 && number < 2 ** 32 - 1)) {
    return path === undefined ? { cid: id, port } : { path, port };
  }
  throw new TypeError(
    `Cannot use ${url}: it has to be vsock-unix:PATH:PORT or vsock:CID:PORT, with numbers from 1 to ${
      2 ** 32 - 2
    }`,
  );
}

/** Connects. Rejects with `Unreachable`, or `ProtocolViolation` where a path leads to no VMM. */
export async function dial(address: VsockAddress): Promise<Duplex> {
  const way = "path" in address ? `through ${address.path}` : `of context ${address.cid}`;
  try {
    return "path" in address ? await dialHost(address) : await dialContext(address);
  } catch (cause) {
    if (cause instanceof ProtocolViolation) throw cause;
    const said = cause instanceof GuestError ? cause.message : `the connection failed: ${cause}`;
    throw new Unreachable(`Cannot reach vsock port ${address.port} ${way}: ${said}`, { cause });
  }
}

/** Firecracker's handshake, which others took over: one line each way, and then the guest's bytes. */
async function dialHost({ path, port }: { path: string; port: number }): Promise<Duplex> {
  const { connect } = await import("node:net");
  const socket = connect({ path });
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
  const listeners = Object.entries({ readable: read, end: closed, close: closed, error: reject });
  for (const [event, listener] of listeners) socket.on(event, listener);
  try {
    return await promise;
  } finally {
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
