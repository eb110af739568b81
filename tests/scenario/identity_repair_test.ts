import { deepStrictEqual, match, notStrictEqual, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { output } from "../support/command.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { findInMemory } from "../support/memory.ts";
import { bootstrapIdentity } from "../support/handshake.ts";
import { Scratch } from "../support/scratch.ts";

const OLD = "0123456789abcdef0123456789abcdef\n";

/** A guest's files, away from the machine's own. Without /proc and /dev no step leaves this place. */
function guestFiles(): Scratch {
  const root = new Scratch();
  for (const directory of ["etc", "var/lib/dbus", "var/lib/systemd"]) {
    Deno.mkdirSync(root.join(directory), { recursive: true });
  }
  root.file("etc/machine-id", OLD);
  root.file("var/lib/dbus/machine-id", OLD);
  root.file("var/lib/systemd/random-seed", "seed");
  return root;
}

function repairing(root: Scratch): Promise<Daemon> {
  return Daemon.start({
    env: { GUESTD_IDENTITY_REPAIR: "on", GUESTD_IDENTITY_ROOT: root.path },
  });
}

/** Outcomes of the steps that the log tells of, run after run. */
function outcomes(daemon: Daemon): string[] {
  const lines = daemon.log.toString().split("\n").filter((line) => line.includes("identity step"));
  return lines.map((line) => {
    const { step, outcome, level } = JSON.parse(line);
    return `${level} ${step}: ${outcome}`;
  });
}

const ROUND = [
  "info machine-id: repaired",
  "info dbus machine-id: repaired",
  "info boot_id: not applicable",
  "info random seed: repaired",
  "info kernel generator: not applicable",
];

/** How many of the daemon's threads wait for a file to be opened. */
function opening(daemon: Daemon): number {
  const tasks = [...Deno.readDirSync(`/proc/${daemon.pid}/task`)];
  return tasks.filter(({ name }) =>
    /fifo_open|wait_for_partner/.test(
      Deno.readTextFileSync(`/proc/${daemon.pid}/task/${name}/wchan`),
    )
  ).length;
}

Deno.test("a repair that hangs keeps nobody away, counts as degraded, and the next one waits for it", async () => {
  using root = guestFiles();
  Deno.mkdirSync(root.join("dev"));
  // Who opens a fifo for writing waits for a reader.
  const fifo = root.join("dev/urandom");
  output("mkfifo", fifo);
  await using daemon = await repairing(root);
  const hung = await daemon.guest.health();
  deepStrictEqual([hung.identity_degraded, hung.identity_repaired], [true, false]);
  await daemon.bootstrap();
  await daemon.logWritten();
  deepStrictEqual(outcomes(daemon), []);
  // Only root may see where the daemon's threads wait.
  if (Deno.uid() === 0) strictEqual(opening(daemon), 1);
  using _reader = await Deno.open(fifo, { read: true, write: true });
  await eventually("both repairs' end", () => outcomes(daemon).length === 10);
  const failed = ROUND.map((line) =>
    line.replace("info kernel generator: not applicable", "error kernel generator: failed")
  );
  deepStrictEqual(outcomes(daemon), [
    ...failed,
    ...failed.map((line) => line.replace("random seed: repaired", "random seed: not applicable")),
  ]);
  await eventually("the outcome", async () => (await daemon.guest.health()).identity_repaired);
});

asRoot.test("token and seed reach the kernel's generator together, and nothing of them stays", async () => {
  using root = guestFiles();
  await using daemon = await repairing(root);
  Deno.mkdirSync(root.join("dev"));
  const fifo = root.join("dev/urandom");
  output("mkfifo", fifo);
  const identity = await bootstrapIdentity(daemon);
  const seed = Uint8Array.fromBase64(identity.payload().identity_seed);
  // Nobody else has the end of the one before the beginning of the other.
  const token = new TextEncoder().encode(daemon.token).slice(-16);
  const secret = new Uint8Array([...token, ...seed.slice(0, 16)]);
  strictEqual(opening(daemon), 1);
  strictEqual(findInMemory(daemon.pid, { secret }).secret.length, 1);
  using _reader = await Deno.open(fifo, { read: true, write: true });
  await eventually("the second repair's end", () => outcomes(daemon).length === 10);
  deepStrictEqual(findInMemory(daemon.pid, { secret }).secret, []);
});

Deno.test("the identity is made anew at the start, and again with the token", async () => {
  using root = guestFiles();
  await using daemon = await repairing(root);
  const machineId = (): string => Deno.readTextFileSync(root.join("etc/machine-id"));
  const first = machineId();
  match(first, /^[0-9a-f]{32}\n$/);
  notStrictEqual(first, OLD);
  strictEqual(Deno.readTextFileSync(root.join("var/lib/dbus/machine-id")), first);
  await daemon.logWritten();
  deepStrictEqual(outcomes(daemon), ROUND);
  const before = await daemon.guest.health();
  strictEqual(before.identity_repaired, true);
  strictEqual(before.identity_degraded, false);
  await daemon.bootstrap();
  const second = machineId();
  notStrictEqual(second, first);
  await daemon.logWritten();
  deepStrictEqual(outcomes(daemon), [
    ...ROUND,
    ...ROUND.map((line) => line.replace("random seed: repaired", "random seed: not applicable")),
  ]);
  // A replay installs nothing, and so repairs nothing.
  await daemon.bootstrap(daemon.token);
  strictEqual(machineId(), second);
});

Deno.test("a step that fails is said, stops no other, and changes no answer", async () => {
  using root = guestFiles();
  Deno.removeSync(root.join("var/lib/systemd/random-seed"));
  Deno.mkdirSync(root.join("var/lib/systemd/random-seed"));
  await using daemon = await repairing(root);
  await daemon.bootstrap();
  const health = await daemon.guest.health();
  strictEqual(health.identity_repaired, true);
  strictEqual(health.identity_degraded, true);
  await daemon.logWritten();
  strictEqual(outcomes(daemon)[3], "error random seed: failed");
  notStrictEqual(Deno.readTextFileSync(root.join("etc/machine-id")), OLD);
});

Deno.test("switched off, nothing is touched", async () => {
  using root = guestFiles();
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_IDENTITY_ROOT: root.path } });
  const health = await daemon.guest.health();
  strictEqual(health.identity_repaired, false);
  strictEqual(health.identity_degraded, false);
  strictEqual(Deno.readTextFileSync(root.join("etc/machine-id")), OLD);
  strictEqual(Deno.readTextFileSync(root.join("var/lib/systemd/random-seed")), "seed");
  await daemon.logWritten();
  deepStrictEqual(outcomes(daemon), []);
});
