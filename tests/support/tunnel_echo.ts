/** A tunnel of the client library to a server that sends everything back. */

import type { Tunnel } from "../../src/client/tunnel.ts";
import { within } from "./await_event.ts";

/** Sends bytes and gives as many as come back. */
export async function echoed(
  tunnel: Tunnel,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  const writer = tunnel.writable.getWriter();
  const reader = tunnel.readable.getReader();
  const written = writer.write(bytes);
  const back = new Uint8Array(bytes.length);
  for (let at = 0; at < back.length;) {
    const { done, value } = await within("the echo", reader.read());
    if (done) throw new Error(`Cannot read on: the tunnel ended after ${at} bytes`);
    back.set(value, at);
    at += value.length;
  }
  await written;
  writer.releaseLock();
  reader.releaseLock();
  return back;
}
