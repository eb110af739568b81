import { deepStrictEqual } from "node:assert/strict";
import process from "node:process";
import { Guest } from "../../src/client/guest.ts";
import { SocketTransport } from "../../src/client/socket_transport.ts";
import { checkRoundTrips } from "../support/round_trips.ts";
import { withLongReplay } from "../support/with_guest.ts";

/** Leads a Unix socket to a port of 127.0.0.1, until it is closed. */
async function lead(listener: Deno.UnixListener, port: number): Promise<void> {
  for await (const near of listener) {
    const far = await Deno.connect({ hostname: "127.0.0.1", port });
    near.readable.pipeTo(far.writable).catch(() => {});
    far.readable.pipeTo(near.writable).catch(() => {});
  }
}

withLongReplay.test("commands, files and tunnels go over a Unix socket, whatever host the URL names", async ({ daemon, scratch }) => {
  const warned: string[] = [];
  const warn = ({ message }: Error): void => void warned.push(message);
  process.on("warning", warn);
  const path = scratch.join("socket");
  const listener = Deno.listen({ transport: "unix", path });
  const leading = lead(listener, daemon.port);
  const transport = new SocketTransport({ path });
  const guest = new Guest("http://guest.invalid", { token: daemon.token, transport });
  await checkRoundTrips(guest, scratch.join("file"));
  transport.close();
  listener.close();
  await leading;
  process.off("warning", warn);
  // A listener that stays behind each write that waited is one.
  deepStrictEqual(warned, []);
});
