/** A guest of 512 MiB under all that a client may ask for: nothing is lost, and the kernel's OOM killer stays away. */

import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import type { PollResponse } from "../../src/contract/exec.ts";
import type { Tunnel } from "../../src/client/tunnel.ts";
import { echoed } from "../support/tunnel_echo.ts";
import { put } from "./file_checks.ts";
import { journey } from "./journey.ts";
import type { Guest } from "./guest.ts";
import { Machine, Shelf } from "./machine.ts";
import { ECHO_PORT, startEcho } from "./tunnel_checks.ts";

const MIB = 1024 ** 2;
const OUTPUT_BYTES = 8 * MIB;
/** Far more than the guest's memory has room for, beside the upload. */
const OUTPUTS = 40;
const UPLOAD_MIB = 500;
const TUNNELS = 20;
/**
 * Each tunnel's load: a message of so many bytes to and fro, one every so many milliseconds at most. Tunnels that send all
 * they can leave an upload its share of the daemon's thread, which emulation makes a megabyte a second.
 */
const MESSAGE_BYTES = 16 * 1024;
const MESSAGE_EVERY_MS = 1000;

const SHELF = new Shelf();
let machine: Machine;
let guest: Guest;

const step = journey("a guest of 512 MiB under all that a client may ask for", async () => {
  await machine?.[Symbol.asyncDispose]();
  guest?.[Symbol.dispose]();
  SHELF[Symbol.dispose]();
});

step("it boots", async () => {
  const disk = SHELF.disk("disk", "amd64");
  machine = await Machine.boot({ arch: "amd64", disk, memoryMib: 512 });
  guest = await machine.guest();
  await guest.run();
});

async function tell(when: string): Promise<void> {
  console.log(`${when}: ${await guest.daemonMemory()}`);
}

let made = 0;

const outputId = (n: number): string => `output-${n}`;

step(`${OUTPUTS} commands keep 8 MiB of unacked output each`, async () => {
  await tell("at the run hook");
  // Memory that was used once at the start is given back after a while.
  await guest.sh("sleep 5");
  await tell("five seconds later");
  // And what is used of the program is kept, whatever the commands take: it is a file of 90 MiB.
  ok(Number(await guest.sh("sed -n 's/^VmLck:\\s*\\([0-9]*\\) kB/\\1/p' /proc/1/status")) > 50_000);
  for (let n = 0; n < OUTPUTS; n++) {
    const id = outputId(n);
    await guest.start(`yes ${id} | head -c ${OUTPUT_BYTES}`, { id });
    // From its end on the stream has nothing but the exit to tell.
    const { exit } = await guest.follow(id, BigInt(OUTPUT_BYTES));
    strictEqual(exit.offset, BigInt(OUTPUT_BYTES));
    made = n + 1;
  }
  strictEqual((await guest.client.health()).busy, false);
  await tell(`with ${made * 8} MiB unacked`);
});

step(`a file of ${UPLOAD_MIB} MiB is uploaded while ${TUNNELS} tunnels carry data`, async () => {
  const server = await startEcho(guest);
  const tunnels: Tunnel[] = [];
  for (let n = 0; n < TUNNELS; n++) tunnels.push(await guest.client.connect(ECHO_PORT));
  let uploaded = false;
  const began = performance.now();
  const upload = put(guest, "file", "/var/large", pattern(UPLOAD_MIB)).finally(() => {
    uploaded = true;
  });
  // All of them once in any case, and then for as long as the upload goes on.
  const carried = await Promise.all(tunnels.map(async (tunnel, n) => {
    let rounds = 0;
    do {
      const next = new Promise((resolve) => setTimeout(resolve, MESSAGE_EVERY_MS));
      const message = `tunnel ${n}, ${rounds++} `.repeat(MESSAGE_BYTES).slice(0, MESSAGE_BYTES);
      const bytes = new TextEncoder().encode(message);
      deepStrictEqual(await echoed(tunnel, bytes), bytes);
      await next;
    } while (!uploaded);
    return rounds;
  }));
  await upload;
  console.log(`uploaded in ${((performance.now() - began) / 1000).toFixed(0)} s`);
  ok(Math.min(...carried) > 1, `rounds of each tunnel during the upload: ${carried}`);
  strictEqual(await guest.sh("stat -c %s /var/large; rm /var/large"), `${UPLOAD_MIB * MIB}`);
  await tell("after the upload, with all tunnels open");
  for (const tunnel of tunnels) tunnel.close();
  await guest.client.kill(server);
  await guest.client.ack(server);
});

/** So many MiB, one at a time. */
function pattern(mib: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  const block = new Uint8Array(MIB).map((_, at) => at % 251);
  let left = mib;
  return new ReadableStream({
    pull(controller): void {
      if (left-- > 0) controller.enqueue(block);
      else controller.close();
    },
  });
}

step("every output is still there, whole", async () => {
  for (let n = 0; n < made; n++) {
    const id = outputId(n);
    const { stdout, truncated, exit_code }: PollResponse = await guest.client.ack(id);
    deepStrictEqual([exit_code, truncated, stdout?.length], [0, false, OUTPUT_BYTES]);
    ok(stdout === `${id}\n`.repeat(OUTPUT_BYTES / id.length + 1).slice(0, OUTPUT_BYTES), id);
  }
  await tell("with all acked");
});

step("the OOM killer has not been there", async () => {
  strictEqual(await guest.sh("sed -n 's/^oom_kill //p' /proc/vmstat"), "0");
  await guest.client.hooks.terminate();
  await machine.poweredOff();
});
