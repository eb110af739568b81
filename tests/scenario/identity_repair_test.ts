import { deepStrictEqual, match, notStrictEqual, strictEqual } from "node:assert/strict";
import { Daemon } from "../support/daemon.ts";
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

Deno.test("the identity is made anew at the start, and again with the token", async () => {
  using root = guestFiles();
  await using daemon = await repairing(root);
  const machineId = (): string => Deno.readTextFileSync(root.join("etc/machine-id"));
  const first = machineId();
  match(first, /^[0-9a-f]{32}\n$/);
  notStrictEqual(first, OLD);
  strictEqual(Deno.readTextFileSync(root.join("var/lib/dbus/machine-id")), first);
  deepStrictEqual(outcomes(daemon), ROUND);
  const before = await daemon.health();
  strictEqual(before.identity_repaired, true);
  strictEqual(before.identity_degraded, false);
  await daemon.bootstrap();
  const second = machineId();
  notStrictEqual(second, first);
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
  const health = await daemon.health();
  strictEqual(health.identity_repaired, true);
  strictEqual(health.identity_degraded, true);
  strictEqual(outcomes(daemon)[3], "error random seed: failed");
  notStrictEqual(Deno.readTextFileSync(root.join("etc/machine-id")), OLD);
});

Deno.test("switched off, nothing is touched", async () => {
  using root = guestFiles();
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_IDENTITY_ROOT: root.path } });
  const health = await daemon.health();
  strictEqual(health.identity_repaired, false);
  strictEqual(health.identity_degraded, false);
  strictEqual(Deno.readTextFileSync(root.join("etc/machine-id")), OLD);
  strictEqual(Deno.readTextFileSync(root.join("var/lib/systemd/random-seed")), "seed");
  deepStrictEqual(outcomes(daemon), []);
});
