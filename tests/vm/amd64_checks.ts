/**
 * The guest image as one machine after another, in the order in which a platform drives it: boot, probes, freeze, two
 * guests from what was frozen, a suspend in the middle of one's life, its end. Each test goes on where the one before
 * it stopped; `./build.sh vm-test` runs them.
 */

import {
  deepStrictEqual,
  doesNotMatch,
  match,
  notStrictEqual,
  ok,
  strictEqual,
} from "node:assert/strict";
import { text } from "../support/answers.ts";
import { Identity } from "../../src/client/identity.ts";
import { eventually } from "../support/await_event.ts";
import { checkFiles, checkReserve } from "./file_checks.ts";
import { journey } from "./journey.ts";
import { checkNewcomer } from "./newcomer_checks.ts";
import type { Guest } from "./guest.ts";
import { type Frozen, Machine, Shelf } from "./machine.ts";
import { checkStream } from "./stream_checks.ts";
import { checkNoIdentity, checkTunnel } from "./tunnel_checks.ts";

/** What the image gives every guest, for identity repair to change. */
const IMAGE_MACHINE_ID = "1".padStart(32, "0");
const SHELF = new Shelf();
/** Whom the guest's tunnels take for its client. */
const keys = Identity.generate();

let machine: Machine;
let guest: Guest;
let frozen: Frozen;
/** What the first guest that booted as a child of its init was, for another cold boot to differ from. */
let coldBoot: MachineIds;

const step = journey("a guest on its way from the image to its end", async () => {
  await machine?.[Symbol.asyncDispose]();
  guest?.[Symbol.dispose]();
  SHELF[Symbol.dispose]();
});

/** Goes on with another machine; the one before has ended. */
async function turnTo(next: Machine, token?: string): Promise<void> {
  guest?.[Symbol.dispose]();
  await machine?.[Symbol.asyncDispose]();
  machine = next;
  guest = await machine.guest(token);
}

/** Restores what was frozen, on a copy of its disk, as a machine of its own. */
async function restore(name: string, token?: string): Promise<void> {
  const disk = SHELF.disk(name, frozen.options.disk);
  await turnTo(await Machine.restore(frozen, disk), token);
}

interface MachineIds {
  readonly machineId: string;
  readonly bootId: string;
}

async function identity(): Promise<MachineIds> {
  const ids = await guest.sh("cat /etc/machine-id /proc/sys/kernel/random/boot_id");
  const [machineId = "", bootId = ""] = ids.split("\n");
  match(machineId, /^[0-9a-f]{32}$/);
  match(bootId, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  return { machineId, bootId };
}

function notTheSame(one: MachineIds, other: MachineIds): void {
  notStrictEqual(one.machineId, other.machineId);
  notStrictEqual(one.bootId, other.bootId);
  for (const { machineId } of [one, other]) notStrictEqual(machineId, IMAGE_MACHINE_ID);
}

step("the image boots with 512 MiB, and the daemon answers before it has a token", async () => {
  const disk = SHELF.disk("template", "amd64");
  const started = performance.now();
  await turnTo(await Machine.boot({ arch: "amd64", disk }));
  const health = await guest.client.health();
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`health answered ${seconds} s after the start of QEMU`);
  strictEqual(health.bootstrapped, false);
  strictEqual(health.disk?.under_pressure, false);
  // Its console is a terminal, on which Deno would say more than elsewhere.
  doesNotMatch(machine.console.toString(), /cache/);
  await text(await guest.fetch("/v1/procs"), 503);
});

step("the probes of an image build are answered", async () => {
  await guest.client.hooks.ready();
  await guest.client.hooks.validate();
  strictEqual((await guest.client.health()).bootstrapped, false);
});

step("two guests that go on from one frozen machine differ in machine id and boot id", async () => {
  frozen = await machine.freeze();
  await restore("first");
  await guest.run();
  const first = await identity();
  await guest.client.hooks.terminate();
  await machine.poweredOff();

  await restore("second");
  await guest.run({ env: { GREETING: "hello" }, identity: keys });
  notTheSame(first, await identity());
  const { identity_degraded, identity_repaired } = await guest.client.health();
  deepStrictEqual([identity_repaired, identity_degraded], [true, false]);
});

step("hooks are told in the order of the platform, and the token is taken once", async () => {
  const { bootstrapped, hooks } = await guest.client.health();
  strictEqual(bootstrapped, true);
  deepStrictEqual(hooks.map(({ hook }) => hook), ["ready", "validate", "run"]);
  const other = { runHookPayload: JSON.stringify({ agent_token: "another" }) };
  const init = { method: "POST", body: JSON.stringify(other) };
  await text(await guest.fetch("/platform/runtime/v1/run", init), 409);
});

step("the daemon is PID 1, untouched by root's SIGKILL and SIGSTOP", async () => {
  match(await guest.sh("tr '\\0' ' ' </proc/1/cmdline"), /guestd/);
  strictEqual(await guest.sh("id -u; kill -KILL 1; kill -STOP 1; echo sent"), "0\nsent");
  strictEqual((await guest.client.health()).bootstrapped, true);
});

step("the client that got the address stays and renews it", async () => {
  const network = "ip -4 address show dev eth0; ip route";
  const before = await guest.sh(network);
  match(before, /inet 10\.0\.2\.15\/24[^]*default via 10\.0\.2\.2/);
  await guest.sh("mv /etc/resolv.conf /tmp/resolv.conf; kill -USR1 $(pidof udhcpc)");
  const written = "test -s /etc/resolv.conf && echo yes || echo no";
  await eventually("the lease renewed", async () => await guest.sh(written) === "yes");
  strictEqual(await guest.sh("cat /etc/resolv.conf"), await guest.sh("cat /tmp/resolv.conf"));
  strictEqual(await guest.sh(network), before);
});

step("what the daemon takes for itself as root, its commands do not have", async () => {
  const limits = (pid: string): string =>
    `cat /proc/${pid}/oom_score_adj; sed -n 's/^Max open files *//p' /proc/${pid}/limits`;
  match(await guest.sh(limits("1")), /^-1000\n65472 +65536/);
  match(await guest.sh(limits("self")), /^0\n4096 +4096/);
});

step(
  "output streams while the command runs, with the run hook's environment",
  () => checkStream(guest),
);

step("a command is demoted to the uid and group that are asked for", async () => {
  const ids = await guest.sh("id -u; id -g; id -G; echo $HOME; touch /etc/mine || echo refused", {
    uid: 1000,
  });
  deepStrictEqual(ids.split("\n"), ["1000", "1000", "1000", "/home/user", "refused"]);
  strictEqual(await guest.sh("id -u; id -g", { uid: 4711, gid: 42 }), "4711\n42");
});

step("an orphan becomes a child of PID 1, which reaps it", checkOrphan);

/** An orphan outside every exec's group: it has PID 1 as its parent, and leaves no zombie behind. */
async function checkOrphan(): Promise<void> {
  const orphan = "setsid sh -c 'read -r line </tmp/orphan' >/dev/null 2>&1 & echo $!";
  const pid = await guest.sh(`rm -f /tmp/orphan; mkfifo /tmp/orphan; ${orphan}`);
  const parent = await guest.sh(`sed -n 's/^PPid:\\s*//p' /proc/${pid}/status`);
  match(await guest.sh(`tr '\\0' ' ' </proc/${parent}/cmdline`), /guestd/);
  await guest.sh("echo >/tmp/orphan");
  await eventually(
    "the orphan reaped",
    async () => await guest.sh(`test -e /proc/${pid} && echo there || echo gone`) === "gone",
  );
}

step("files and trees go in and come out", () => checkFiles(guest));

step("the reserve is kept free on the guest's disk", () => checkReserve(guest));

step("a tunnel reaches a server in the guest, also with identity", () => checkTunnel(guest, keys));

step("a restored guest has lost nothing, and expired timeouts fire at once", async () => {
  const finished = await guest.start("echo before the freeze");
  await guest.follow(finished);
  const running = await guest.start("echo started; read -r line; echo $line", { stdin: "piped" });
  await (await guest.stream(running)).untilOutput("started\n");
  const background = await guest.sh("sleep 100000 >/dev/null 2>&1 & echo $!");
  const leased = await guest.start("echo leased; exec sleep 100000", { timeout: 1_800_000 });
  await (await guest.stream(leased)).untilOutput("leased\n");
  const before = Number(await guest.sh("date +%s"));
  await guest.client.hooks.suspend();

  frozen = await machine.freeze();
  await restore("resumed", guest.token);
  // What a platform's clock does while the guest does not run.
  await guest.sh(`date -s @${before + 3600}`);
  await guest.client.hooks.resume();

  strictEqual((await guest.client.ack(finished)).stdout, "before the freeze\n");
  await guest.client.writeStdin(running, new TextEncoder().encode("after it\n"));
  strictEqual((await guest.follow(running)).text(), "started\nafter it\n");
  match(await guest.sh(`tr '\\0' ' ' </proc/${background}/cmdline`), /^sleep 100000/);
  const hooks = (await guest.client.health()).hooks.map(({ hook }) => hook);
  deepStrictEqual(hooks.slice(-2), ["suspend", "resume"]);
  const expired = async (): Promise<boolean> => {
    const seen = async (): Promise<boolean> => (await guest.client.poll(leased)).phase === "exited";
    return await eventually("the timeout", seen, 5000).catch(() => false);
  };
  ok(await expired(), "a timeout of half an hour has not fired though an hour went by");
  strictEqual((await guest.client.ack(leased)).signal, 15);
});

step("terminate ends what runs, tells its stream so, and powers the machine off", async () => {
  const id = await guest.start(
    "trap 'echo asked; exit 4' TERM; echo on; read -r line",
    { stdin: "piped" },
  );
  await using stream = await guest.stream(id);
  await stream.untilOutput("on\n");
  await guest.client.hooks.terminate();
  const rest = await stream.rest();
  strictEqual(rest.text("stdout"), "asked\n");
  strictEqual(rest.exit.exit_code, 4);
  await machine.poweredOff();
});

step("root of the guest can end it in order, by SIGTERM to PID 1", async () => {
  await restore("asked", guest.token);
  // The answer may be lost in the end that it causes.
  await guest.start("kill -TERM 1").catch(() => {});
  await machine.poweredOff();
  ok(machine.console.toString().includes("shutting down"));
});

step("as a child of an init it reaps orphans too, and the machine powers off", async () => {
  const disk = SHELF.disk("child", "amd64");
  // A platform without DHCP gives the address on the kernel's command line.
  const append =
    "guestd.init=child ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:off:10.0.2.3:10.0.2.4";
  await turnTo(await Machine.boot({ arch: "amd64", disk, append }));
  await guest.run();
  coldBoot = await identity();
  const network = await guest.sh("ip address show eth0; ip route");
  match(network, /10\.0\.2\.15\/24[^]*default via 10\.0\.2\.2/);
  strictEqual(await guest.sh("cat /etc/resolv.conf"), "nameserver 10.0.2.3\nnameserver 10.0.2.4");
  strictEqual(await guest.sh("pidof udhcpc || echo none"), "none");
  match(await guest.sh("cat /proc/1/cmdline"), /sbin\/init/);
  await checkOrphan();
  await checkNoIdentity(guest);
  await guest.client.hooks.terminate();
  await machine.poweredOff();
  ok(machine.console.toString().includes("the daemon has ended with 0"));
});

step("a daemon killed under its init is not replaced: the machine powers off", async () => {
  const disk = SHELF.disk("killed", "amd64");
  const append = "guestd.init=child ip=dhcp";
  await turnTo(await Machine.boot({ arch: "amd64", disk, append }));
  await guest.run();
  notTheSame(coldBoot, await identity());
  // The answer may be lost with the daemon.
  await guest.start("kill -KILL $PPID").catch(() => {});
  await machine.poweredOff();
  ok(machine.console.toString().includes("the daemon has ended with 137"));
  const listening = machine.console.withMessage("listening");
  strictEqual(listening.filter(({ hostname }) => hostname !== undefined).length, 1);
});

step("without an address the daemon starts, and takes one that comes late", async () => {
  const disk = SHELF.disk("late", "amd64");
  await turnTo(await Machine.boot({ arch: "amd64", disk, unplugged: true }));
  ok(machine.console.toString().includes("guest: no network on eth0"));
  await machine.plugIn();
  strictEqual((await guest.client.health()).bootstrapped, false);
});

step(
  "a newcomer gets from there to a shell, tests, a port and what came of it, by the README's lines",
  async () => {
    await checkNewcomer(guest);
    await guest.client.hooks.terminate();
    await machine.poweredOff();
  },
);
