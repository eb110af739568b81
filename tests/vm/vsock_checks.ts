/**
 * A guest without a network device, as its host drives it by vsock, from its boot to its end. `./build.sh vm-test --vsock`
 * runs it.
 */

import { deepStrictEqual, match, ok, rejects, strictEqual } from "node:assert/strict";
import { text } from "../support/answers.ts";
import { Guest as Client } from "../../src/client/guest.ts";
import { Identity } from "../../src/client/identity.ts";
import { SocketTransport } from "../../src/client/socket_transport.ts";
import { dial } from "../../src/client/vsock_dial.ts";
import { eventually, within } from "../support/await_event.ts";
import { checkFiles } from "./file_checks.ts";
import type { Guest } from "./guest.ts";
import { journey } from "./journey.ts";
import { type Arch, Machine, Shelf } from "./machine.ts";
import { checkStream } from "./stream_checks.ts";
import { checkTunnel, ECHO_PORT, startEcho } from "./tunnel_checks.ts";

const ARCH = (Deno.env.get("GUESTD_VM_ARCH") ?? "amd64") as Arch;
/** The time for a connection's first head, which is 10 s, and as much again on a busy machine, in milliseconds. */
const IDLE_MS = 60_000;
/** Rounds, and the size of a file in bytes, by which the ways to a guest are compared. */
const TRIPS = 200;
const FILE_BYTES = 64 << 20;
const SHELF = new Shelf();
const keys = Identity.generate();

let machine: Machine;
let guest: Guest;

const step = journey("a guest without a network, by vsock, on its way to its end", async () => {
  guest?.[Symbol.dispose]();
  await machine?.[Symbol.asyncDispose]();
  SHELF[Symbol.dispose]();
});

/** How long it takes. */
async function milliseconds(done: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await done();
  return performance.now() - begun;
}

/** A connection of which nothing is sent yet. */
const dialled = (): ReturnType<typeof dial> => dial({ path: machine.vsockPath, port: 9000 });

step("it boots without a network device, and answers by vsock before it has a token", async () => {
  machine = await Machine.boot({ arch: ARCH, disk: SHELF.disk("vsock", ARCH), vsock: "only" });
  const listening = ({ vsock }: Record<string, unknown>): boolean => vsock === "vsock:9000";
  await machine.console.until("vsock listen", listening);
  guest = machine.vsockGuest();
  strictEqual((await guest.client.health()).bootstrapped, false);
  await text(await guest.fetch("/v1/procs"), 503);
});

step("a web page has no hooks, and the platform has them", async () => {
  const init = { method: "POST", headers: { origin: "http://page.invalid" } };
  await text(await guest.fetch("/platform/runtime/v1/ready", init), 404);
  await guest.client.hooks.ready();
  await guest.run({ env: { GREETING: "hello" }, identity: keys });
  const { hooks } = await guest.client.health();
  deepStrictEqual(hooks.map(({ hook }) => hook), ["ready", "run"]);
  strictEqual(await guest.sh("ls /sys/class/net"), "lo");
});

step("requests that name no host are answered, for Deno puts the vsock's own", async () => {
  for (
    const head of ["GET /v1/health HTTP/1.1\r\nhost:\r\n\r\n", "GET /v1/health HTTP/1.0\r\n\r\n"]
  ) {
    const socket = await dialled();
    socket.write(head);
    const [piece] = await within("an answer", Array.fromAsync(socket.take(1)));
    match(String(piece), /^HTTP\/1\.[01] 200 OK\r\n/);
    socket.destroy();
  }
});

step("output streams while the command runs, which takes its stdin", () => checkStream(guest));

step("files and trees go in and come out", () => checkFiles(guest));

step("a tunnel reaches a server in the guest, also with identity", () => checkTunnel(guest, keys));

step("a client that vanishes ends its tunnel, and its guest is told", async () => {
  const server = await startEcho(guest);
  const { length } = machine.console.withMessage("tunnel ended");
  const abandoned = new AbortController();
  const transport = new SocketTransport({ vsock: { path: machine.vsockPath, port: 9000 } });
  const socket = await transport.connect(`${guest.url}/v1/tcp?port=${ECHO_PORT}`, {
    headers: { authorization: `Bearer ${guest.token}` },
    signal: abandoned.signal,
  });
  ok(!(socket instanceof Response));
  await socket.send(new TextEncoder().encode("echo"));
  await within("the echo", socket.receive());
  socket.abort();
  transport.close();
  const connected = `netstat -tn | grep -c ':${ECHO_PORT} .*ESTABLISHED' || true`;
  const isOver = async (): Promise<boolean> => await guest.sh(connected) === "0";
  await eventually("the guest's end of the tunnel", isOver);
  strictEqual(machine.console.withMessage("tunnel ended").length, length + 1);
  await guest.client.kill(server);
  await guest.client.ack(server);
});

step("a connection that asks for nothing is ended, as it is over a network", async () => {
  const socket = await dialled();
  const pieces = Array.fromAsync(socket);
  deepStrictEqual(await within("its end", pieces, IDLE_MS), []);
  await machine.console.until(
    "a word on it",
    ({ msg }) => msg.startsWith("connections were ended"),
  );
  strictEqual((await guest.client.health()).bootstrapped, true);
});

step(
  "guestctl and the client of a guest with the same vsock reach it by a context id",
  async () => {
    // What sends a guest's own vsock back to it is not in its image.
    const kernel = new URL(`../../.tools/image/${ARCH}/unpacked/kernel/`, import.meta.url).pathname;
    const find = new Deno.Command("find", { args: [kernel, "-name", "vsock_loopback.ko"] });
    const module = new TextDecoder().decode((await find.output()).stdout).trim();
    await guest.client.writeFile("/tmp/loopback.ko", await Deno.readFile(module));
    const way = "insmod /tmp/loopback.ko; export GUESTCTL_URL=vsock:1:9000";
    const env = { GUESTCTL_TOKEN: guest.token ?? "" };
    strictEqual(await guest.sh(`${way}; guestctl run -- echo from within`, { env }), "from within");
    const nobody = "export GUESTCTL_URL=vsock:1:9001; guestctl health 2>&1 || true";
    match(await guest.sh(nobody), /^guestctl: Cannot reach vsock port 9001 of context 1: /);
  },
);

step("suspended, frozen and restored, it goes on by a vsock that was plugged in anew", async () => {
  const running = await guest.start("echo started; read -r line; echo $line", { stdin: "piped" });
  await (await guest.stream(running)).untilOutput("started\n");
  await guest.client.hooks.suspend();
  const { token } = guest;
  guest[Symbol.dispose]();
  const frozen = await machine.freeze();
  machine = await Machine.restore(frozen, SHELF.disk("restored", frozen.options.disk));
  guest = machine.vsockGuest(token);
  await eventually("the guest's answer", async () => {
    return await guest.client.health().then(() => true, () => false);
  });
  await guest.client.hooks.resume();
  await guest.client.writeStdin(running, new TextEncoder().encode("after it\n"));
  strictEqual((await guest.follow(running)).text(), "started\nafter it\n");
});

step("QEMU does not freeze it with its vsock, and says why", async () => {
  await rejects(machine.migrate(), /non-migratable device '.*vhost-user-vsock'/);
});

step("terminate powers the machine off", async () => {
  await guest.client.hooks.terminate();
  await machine.poweredOff();
});

step("its round trip and throughput are told beside those of virtio-net", async () => {
  guest[Symbol.dispose]();
  await machine[Symbol.asyncDispose]();
  // A file twice and the reserve have room in half of it.
  const options = { arch: ARCH, disk: SHELF.disk("both", ARCH), memoryMib: 1024 };
  machine = await Machine.boot({ ...options, vsock: "too" });
  guest = await machine.guest();
  await guest.run();
  const vsock = { path: machine.vsockPath, port: 9000 };
  const ways = { "virtio-net": {}, vsock: { vsock } };
  const bytes = crypto.getRandomValues(new Uint8Array(65536));
  const content = new Blob(Array.from({ length: FILE_BYTES / bytes.length }, () => bytes));
  for (const [way, sockets] of Object.entries(ways)) {
    const transport = new SocketTransport(sockets);
    const { url, token } = guest;
    const client = new Client(url, { token, transport, retryMs: 0 });
    const trips: number[] = [];
    for (let trip = 0; trip < TRIPS; trip++) trips.push(await milliseconds(() => client.health()));
    const body = { size: content.size };
    const up = await milliseconds(() => client.writeFile("/dev/shm/file", content.stream(), body));
    let size = 0;
    const down = await milliseconds(async () => {
      const { readable } = await client.readFile("/dev/shm/file");
      for await (const piece of readable) size += piece.length;
    });
    transport.close();
    strictEqual(size, content.size);
    const [median = 0, p95 = 0] = [0.5, 0.95].map((part) =>
      trips.toSorted((a, b) => a - b)[part * TRIPS]
    );
    const [mbUp = 0, mbDown = 0] = [up, down].map((ms) => (size / ms / 1000).toFixed(1));
    console.log(
      `${way}: health ${median.toFixed(1)} ms, p95 ${
        p95.toFixed(1)
      }; ${mbUp} MB/s up, ${mbDown} down`,
    );
  }
});
