/**
 * The packages in a distribution's root directory: `./build.sh package-test` runs this as root for each of them, with the
 * root in GUESTD_TEST_ROOT, the packages in GUESTD_TEST_PACKAGES, and the installed launcher in GUESTD_TEST_LAUNCHER.
 */

import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { text } from "../support/answers.ts";
import { command } from "../support/command.ts";
import { Daemon } from "../support/daemon.ts";
import { run } from "../support/tmpfs.ts";
import { OverlaidRoot } from "./overlaid_root.ts";

const ROOT = Deno.env.get("GUESTD_TEST_ROOT") ?? "";
const PACKAGES = Deno.env.get("GUESTD_TEST_PACKAGES") ?? "";
/** Room for what is installed, twice since an upgrade has both, and for the reserve. */
const ROOM_MIB = 700;

/** The package of this machine's processor whose name ends so. */
function packageFile(end: string): string {
  const arch = Deno.build.arch === "x86_64" ? /x86_64|amd64/ : /aarch64|arm64/;
  const found = Array.from(Deno.readDirSync(PACKAGES), ({ name }) => name)
    .filter((name) => name.endsWith(end) && arch.test(name));
  strictEqual(found.length, 1, `${end}: ${found}`);
  return `${PACKAGES}/${found[0]}`;
}

async function started(root: OverlaidRoot): Promise<Daemon> {
  return await Daemon.start({ through: ["chroot", root.path] });
}

/** What a command prints that the daemon runs. */
async function printed(daemon: Daemon, script: string): Promise<string> {
  const id = await daemon.exec(script);
  await text(await daemon.fetch(`/v1/exec/${id}/stream`));
  const { exit_code, stdout } = await daemon.guest.ack(id);
  strictEqual(exit_code, 0, script);
  return stdout.trimEnd();
}

/** A life: token, command, file, guestctl. */
async function drive(root: OverlaidRoot, daemon: Daemon): Promise<void> {
  await daemon.bootstrap();
  const release = Deno.readTextFileSync(`${ROOT}/etc/os-release`);
  strictEqual(await printed(daemon, "cat /etc/os-release"), release.trimEnd());
  const put = { method: "PUT", body: "content" };
  await text(await daemon.fetch("/v1/fs/file?path=/root/a/b", put), 204);
  strictEqual(Deno.readTextFileSync(`${root.path}/root/a/b`), "content");
  const ran = await root.run(
    "/usr/bin/env",
    `GUESTCTL_URL=${daemon.url}`,
    `GUESTCTL_TOKEN=${daemon.token}`,
    "guestctl",
    "run",
    "-c",
    "echo by guestctl; exit 3",
  );
  deepStrictEqual([ran.code, ran.out], [3, "by guestctl"], ran.said);
}

Deno.test("the .deb is installed and off, serves, is replaced beneath the daemon, and leaves its settings alone", async () => {
  using root = new OverlaidRoot(ROOT, ROOM_MIB);
  const deb = root.take(packageFile(".deb"));
  const installed = await root.run("dpkg", "--install", deb);
  strictEqual(installed.code, 0, installed.said);
  match(installed.out, /^guestd: installed, and off/m);
  deepStrictEqual(root.changes().filter((path) => path.startsWith("/etc")), ["/etc/guestd.env"]);
  {
    await using daemon = await started(root);
    await drive(root, daemon);
    const again = await root.run("dpkg", "--install", deb);
    strictEqual(again.code, 0, again.said);
    match(
      again.out,
      new RegExp(`^guestd: process ${daemon.pid} goes on as the version that it is`, "m"),
    );
    strictEqual(await printed(daemon, "echo still here"), "still here");
  }
  Deno.writeTextFileSync(`${root.path}/etc/guestd.env`, "GUESTD_LOG=debug\n");
  const kept = await root.run("dpkg", "--force-confold", "--install", deb);
  strictEqual(kept.code, 0, kept.said);
  strictEqual(Deno.readTextFileSync(`${root.path}/etc/guestd.env`), "GUESTD_LOG=debug\n");
  strictEqual((await root.run("dpkg", "--remove", "guestd")).code, 0);
  deepStrictEqual(root.changes(), ["/etc/guestd.env"]);
  strictEqual((await root.run("dpkg", "--purge", "guestd")).code, 0);
  deepStrictEqual(root.changes(), []);
});

Deno.test("a disk that is too small and a root that is read-only have nothing of a .deb", async () => {
  using small = new OverlaidRoot(ROOT, 70);
  const full = await small.run("dpkg", "--install", small.take(packageFile(".deb")));
  match(full.said, /No space left on device/);
  deepStrictEqual(small.changes(), []);
  using fixed = new OverlaidRoot(ROOT, ROOM_MIB);
  const deb = fixed.take(packageFile(".deb"));
  fixed.remountReadOnly();
  const refused = await fixed.run("dpkg", "--install", deb);
  match(refused.said, /Read-only file system/);
  deepStrictEqual(fixed.changes(), []);
});

Deno.test("the .rpm is installed and off, serves, and leaves nothing but settings that were changed", async () => {
  using root = new OverlaidRoot(ROOT, ROOM_MIB);
  // The root is no distribution of rpm's: what it depends on is told by names that dpkg does not tell, and Debian's rpm has
  // its database in a home directory.
  const rpm = async (...args: string[]): ReturnType<typeof command> =>
    await command("rpm", ["--root", root.path, "--dbpath", "/var/lib/rpm", "--nodeps", ...args]);
  const installed = await rpm("--install", packageFile(".rpm"));
  strictEqual(installed.code, 0, installed.said);
  match(installed.out + installed.said, /^guestd: installed, and off/m);
  deepStrictEqual(root.changes().filter((path) => path.startsWith("/etc")), ["/etc/guestd.env"]);
  {
    await using daemon = await started(root);
    await drive(root, daemon);
    const again = await rpm("--reinstall", packageFile(".rpm"));
    strictEqual(again.code, 0, again.said);
    match(again.out + again.said, new RegExp(`guestd: process ${daemon.pid} goes on`));
    strictEqual(await printed(daemon, "echo still here"), "still here");
  }
  Deno.writeTextFileSync(`${root.path}/etc/guestd.env`, "GUESTD_LOG=debug\n");
  const removed = await rpm("--erase", "guestd");
  strictEqual(removed.code, 0, removed.said);
  deepStrictEqual(root.changes(), ["/etc/guestd.env.rpmsave"]);
});

Deno.test("the tarball is installed by its script in the root itself, serves, and is removed", async () => {
  using root = new OverlaidRoot(ROOT, ROOM_MIB);
  const unpacked = `${root.path}/root/unpacked`;
  Deno.mkdirSync(unpacked);
  ok(run("tar", "-C", unpacked, "--strip-components=1", "-xzf", packageFile(".tar.gz")));
  const script = "/root/unpacked/install.sh";
  const installed = await root.run(script, "/");
  deepStrictEqual([installed.code, installed.said], [0, ""]);
  {
    await using daemon = await started(root);
    await drive(root, daemon);
    const again = await root.run(script, "/");
    match(again.said, new RegExp(`process ${daemon.pid} goes on`));
    strictEqual(await printed(daemon, "echo still here"), "still here");
  }
  strictEqual((await root.run(script, "--remove", "/")).code, 0);
  deepStrictEqual(root.changes(), ["/etc/guestd.env"]);
});
