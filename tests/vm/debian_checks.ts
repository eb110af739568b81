/**
 * A guest of Debian, where systemd is PID 1 and the daemon comes from its package: `./build.sh vm-test --debian` boots what
 * `./build.sh image --debian` has made.
 */

import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { text } from "../support/answers.ts";
import { journey } from "./journey.ts";
import type { Guest } from "./guest.ts";
import { Machine, Shelf } from "./machine.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const SHELF = new Shelf();

let machine: Machine;
let guest: Guest;

const step = journey("a guest of Debian from its boot to its end", async () => {
  await machine?.[Symbol.asyncDispose]();
  guest?.[Symbol.dispose]();
  SHELF[Symbol.dispose]();
});

/** What systemd knows of the daemon's unit, by the properties' names. */
async function unit(...properties: readonly string[]): Promise<Record<string, string>> {
  const shown = await guest.sh(`systemctl show guestd --property=${properties.join(",")}`);
  return Object.fromEntries(
    shown.split("\n").map((line) => {
      const [name = "", ...value] = line.split("=");
      return [name, value.join("=")];
    }),
  );
}

step("it boots with 512 MiB, and the daemon answers before it has a token", async () => {
  const disk = SHELF.disk("debian", `${ROOT}dist/image/amd64/debian.ext4`);
  const started = performance.now();
  machine = await Machine.boot({ arch: "amd64", disk });
  guest = await machine.guest();
  const health = await guest.client.health();
  console.log(`health after ${((performance.now() - started) / 1000).toFixed(1)} s`);
  strictEqual(health.bootstrapped, false);
});

step("its commands run, as whom they should, in the daemon's slice", async () => {
  await guest.run();
  const { MainPID: pid } = await unit("MainPID");
  console.log(await guest.sh(`grep -E '^Vm(RSS|HWM)' /proc/${pid}/status | tr -s '[:space:]' ' '`));
  console.log(await guest.sh("grep -E 'MemTotal|MemAvailable' /proc/meminfo"));
  match(await guest.sh("cat /etc/os-release"), /^VERSION_CODENAME=trixie$/m);
  strictEqual(await guest.sh("cat /proc/1/comm"), "systemd");
  strictEqual(await guest.sh("id -un", { uid: 1000, gid: 1000 }), "user");
  strictEqual(await guest.sh("cat /proc/self/cgroup"), "0::/guestd.slice/guestd.service");
  const { identity_degraded, identity_repaired } = await guest.client.health();
  deepStrictEqual([identity_repaired, identity_degraded], [true, false]);
});

step("systemd takes it for ready, and would not start it again", async () => {
  deepStrictEqual(await unit("Type", "ActiveState", "SubState", "Restart", "NRestarts"), {
    Type: "notify",
    ActiveState: "active",
    SubState: "running",
    Restart: "no",
    NRestarts: "0",
  });
  strictEqual(await guest.sh("systemctl --failed --plain --no-legend"), "");
  // systemd complains in the journal of a word in a unit that it does not know.
  strictEqual(await guest.sh("journalctl -b --no-pager -g 'guestd.*Unknown' -q || true"), "");
});

step("files go in and out", async () => {
  const body = "x".repeat(1 << 20);
  await text(await guest.fetch("/v1/fs/file?path=/root/a/b", { method: "PUT", body }), 204);
  strictEqual(await text(await guest.fetch("/v1/fs/file?path=/root/a/b")), body);
});

step("a command may make control groups of its own below the daemon's", async () => {
  const made = await guest.sh(`cd /sys/fs/cgroup/guestd.slice/guestd.service && mkdir mine &&
    (echo $BASHPID >mine/cgroup.procs 2>/dev/null || sh -c 'echo $$ >mine/cgroup.procs; cat /proc/self/cgroup')`);
  strictEqual(made, "0::/guestd.slice/guestd.service/mine");
});

step("a command for which there is no memory ends alone", async () => {
  const id = await guest.start("exec tail /dev/zero");
  await guest.follow(id);
  const { signal } = await guest.client.ack(id);
  strictEqual(signal, 9);
  deepStrictEqual(await unit("ActiveState", "Result"), {
    Result: "success",
    ActiveState: "active",
  });
  strictEqual((await guest.client.health()).bootstrapped, true);
});

step("systemctl stop ends it in order, it stays ended, and the machine powers off", async () => {
  const id = await guest.start("sleep 600");
  await guest.sh(`systemd-run --quiet --unit=end sh -c '
    systemctl stop guestd
    systemctl show guestd --property=ActiveState,Result,NRestarts,ExecMainStatus >/dev/console
    systemctl poweroff'`);
  // The stream ends with the command, which the daemon ends before itself.
  const { exit } = await guest.follow(id);
  strictEqual(exit?.signal, 15);
  await machine.poweredOff();
  const shown = machine.console.toString();
  for (
    const line of ["ActiveState=inactive", "Result=success", "NRestarts=0", "ExecMainStatus=0"]
  ) {
    match(shown, new RegExp(`^${line}\\s*$`, "m"));
  }
});
