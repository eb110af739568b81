import { deepStrictEqual, rejects, throws } from "node:assert/strict";
import { ProtocolViolation, Unreachable } from "../../src/client/errors.ts";
import { Guest } from "../../src/client/guest.ts";
import { SocketTransport } from "../../src/client/socket_transport.ts";
import { vsockAddress } from "../../src/client/vsock.ts";
import { within } from "../support/await_event.ts";
import { command } from "../support/command.ts";
import { Scratch } from "../support/scratch.ts";
import { sourceUrl } from "../support/source_files.ts";
import { checkRoundTrips } from "../support/round_trips.ts";
import { Vmm } from "../support/vmm.ts";
import { withLongReplay } from "../support/with_guest.ts";

withLongReplay.test("commands, files and tunnels go through a VMM's socket, and so does guestctl", async ({ daemon, scratch }) => {
  const path = scratch.join("vm:3");
  await using _vmm = new Vmm(path, { 9000: daemon.port });
  const url = `vsock-unix:${path}:9000`;
  const transport = new SocketTransport({ vsock: { path, port: 9000 } });
  const guest = new Guest(url, { token: daemon.token, transport });
  await checkRoundTrips(guest, scratch.join("file"));
  transport.close();
  const env = { GUESTCTL_URL: url, GUESTCTL_TOKEN: daemon.token ?? "" };
  const words = ["run", "-c", "echo hello; exit 3"];
  const ran = await command(sourceUrl("scripts/guestctl").pathname, words, { env });
  deepStrictEqual([ran.code, ran.out, ran.said], [3, "hello", ""]);
});

withLongReplay.test("a port that the guest does not listen on is a sentence, and so is a VMM that is not there", async ({ daemon, scratch }) => {
  const path = scratch.join("vm");
  const health = async (): Promise<unknown> =>
    await within("an end", new Guest(`vsock-unix:${path}:9001`, { retryMs: 0 }).health());
  const unreachable = (message: RegExp): object => ({ name: "Unreachable", message });
  await rejects(health(), unreachable(/^Cannot reach vsock port 9001 through .*vm: .*ENOENT/));
  await using _vmm = new Vmm(path, { 9000: daemon.port });
  await rejects(health(), unreachable(/9001 through .*vm: .* closed it in mid-handshake/));
});

Deno.test("what is no handshake is a sentence", async () => {
  const answers: readonly (readonly [answer: string, kind: typeof Unreachable, says: RegExp])[] = [
    ["", Unreachable, /mid-handshake/],
    ["OK 9", Unreachable, /mid-handshake/],
    ["OK\n", ProtocolViolation, /it answered "OK", and not OK/],
    ["HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolViolation, /it answered "HTTP\/1.1 400 /],
    ["0".repeat(1 << 20), ProtocolViolation, /it answered "0{14}", and not OK/],
  ];
  for (const [answer, kind, message] of answers) {
    using scratch = new Scratch();
    const path = scratch.join("socket");
    await using _vmm = new Vmm(path, {}, answer);
    const asked = new Guest(`vsock-unix:${path}:9000`, { retryMs: 0 }).health();
    await rejects(within(`an end after ${answer.slice(0, 20)}`, asked), {
      name: kind.name,
      message,
    });
  }
});

Deno.test("nobody waits for a VMM that says nothing once the caller's signal aborts, and it is left", async () => {
  for (const ask of ["request", "connect"] as const) {
    using scratch = new Scratch();
    const path = scratch.join("socket");
    await using vmm = new Vmm(path, {}, null);
    const transport = new SocketTransport({ vsock: { path, port: 9000 } });
    const leaving = new AbortController();
    const options = { method: "GET", headers: {}, signal: leaving.signal };
    const asked = rejects(within("an end", transport[ask]("http://vsock/", options)), /enough/);
    await within("the handshake", vmm.asked);
    leaving.abort(new Error("enough"));
    await asked;
    await within("its leaving", vmm.left);
    transport.close();
  }
});

Deno.test("an address is vsock-unix:PATH:PORT or vsock:CID:PORT", () => {
  deepStrictEqual(vsockAddress("http://127.0.0.1:9000"), undefined);
  deepStrictEqual(vsockAddress("vsock-unix:/a b:1:2"), { path: "/a b:1", port: 2 });
  deepStrictEqual(vsockAddress("vsock:3:4294967294"), { cid: 3, port: 4294967294 });
  const bad = ["vsock:", "vsock:9000", "vsock:0:1", "vsock:3:0", "vsock:4294967295:1", "vsock:x:1"];
  for (const url of [...bad, "vsock-unix:/a", "vsock-unix::1", "vsock-unix:/a:4294967295"]) {
    throws(() => new Guest(url), {
      name: "TypeError",
      message: /^Cannot use vsock.*: it has to be /,
    });
  }
});
