import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { allSettings, parseSetting, SETTINGS } from "../../src/settings.ts";
import { command } from "../support/command.ts";
import { Daemon, LAUNCHER } from "../support/daemon.ts";
import { Scratch } from "../support/scratch.ts";
import { readSource } from "../support/source_files.ts";
import { run } from "../support/tmpfs.ts";

const CALLS = [
  ["close_range", "ENOSYS", "close_range (Linux 5.9)"],
  ["openat2", "EPERM", "openat2 (Linux 5.6)"],
  ["waitid", "EINVAL", "waitid of a pidfd (Linux 5.4)"],
  ["pidfd_open", "ENOSYS", "pidfd_open (Linux 5.3)"],
] as const;

for (const [call, errno, name] of CALLS) {
  Deno.test({
    name: `a kernel without ${call}, or one that forbids it, is named at the start, which ends`,
    ignore: Deno.uid() !== 0 || !run("strace", "--version"),
    async fn(): Promise<void> {
      const inject = [
        "-f",
        "-o",
        "/dev/null",
        "-e",
        `trace=${call}`,
        "-e",
        `inject=${call}:error=${errno}`,
      ];
      const { code, said } = await command("strace", [...inject, LAUNCHER], {
        env: { GUESTD_LISTEN: "127.0.0.1:0" },
        signal: AbortSignal.timeout(30_000),
      });
      strictEqual(code, 1, said);
      const { cause } = JSON.parse(said) as { cause: string };
      strictEqual(cause, `Cannot run here: this kernel has no ${name}, or does not permit it`);
    },
  });
}

/** A service manager as far as readiness goes: prints what comes to its socket first. */
const MANAGER = `
  const socket = Deno.listenDatagram({ transport: "unixpacket", path: Deno.args[0] });
  console.log("bound");
  const [message] = await socket.receive();
  console.log(new TextDecoder().decode(message));
`;

Deno.test("a service manager is told when the daemon listens", async () => {
  using scratch = new Scratch();
  const socket = scratch.join("notify");
  const args = ["run", "--quiet", "--no-config", "--unstable-net", "--allow-all"];
  const script = scratch.file("manager.ts", MANAGER);
  const manager = new Deno.Command(Deno.execPath(), {
    args: [...args, script, socket],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  const lines = manager.stdout.pipeThrough(new TextDecoderStream()).getReader();
  strictEqual((await lines.read()).value, "bound\n");
  await using daemon = await Daemon.start({ env: { NOTIFY_SOCKET: socket } });
  strictEqual((await lines.read()).value, "READY=1\n");
  await manager.status;
  await lines.cancel();
  deepStrictEqual(daemon.log.lines.filter(({ level }) => level === "warn"), []);
});

Deno.test("a service manager that cannot be told is no reason not to serve", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.start({ env: { NOTIFY_SOCKET: scratch.join("nobody") } });
  const line = await daemon.log.until("the warning", ({ level }) => level === "warn");
  match(String(line["msg"]), /service manager was not told/);
  match(String(line["cause"]), /ENOENT/);
});

Deno.test("a package's settings parse, and keep to this machine", () => {
  const text = readSource("image/package/guestd.env");
  const set = Array.from(text.matchAll(/^#?(GUESTD_[A-Z_]+)=(.*)$/gm));
  strictEqual(set.length, 3);
  for (const [, name, value = ""] of set) {
    const setting = allSettings().find(({ variable }) => variable === name);
    strictEqual(setting !== undefined && parseSetting(setting, value) !== undefined, true, name);
  }
  const listen = /^GUESTD_LISTEN=(.*)$/m.exec(text)?.[1] ?? "";
  const addresses = parseSetting(SETTINGS.listen, listen) ?? [];
  deepStrictEqual(addresses.map((it) => "hostname" in it && it.hostname), ["127.0.0.1"]);
});

Deno.test("a service is not started again, and takes nothing from its commands", () => {
  const unit = readSource("image/package/guestd.service");
  for (
    const line of [
      "Type=notify",
      "Restart=no",
      "KillMode=mixed",
      "OOMPolicy=continue",
      "Delegate=yes",
      "Slice=guestd.slice",
      "EnvironmentFile=/etc/guestd.env",
    ]
  ) {
    match(unit, new RegExp(`^${line}$`, "m"));
  }
  // What systemd hides from a service or forbids it, it hides from and forbids what that starts.
  const taken =
    /^(Protect|Private|Restrict|SystemCall|Capability|NoNewPriv|ReadOnly|Inaccessible|Memory|User|Dynamic|Lock|OOMScore)/m;
  strictEqual(taken.test(unit), false);
  const seconds = (name: string): number =>
    Number(new RegExp(`^${name}=(\\d+)$`, "m").exec(unit)?.[1]);
  // The drain, two seconds of grace and as much again for what is slow.
  strictEqual(seconds("TimeoutStopSec") >= 2 * (Number(SETTINGS.drainSecs.fallback) + 2), true);
});
