import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert/strict";
import { TooLarge } from "../../src/client/errors.ts";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { fileUrl } from "../support/files_client.ts";
import { FrozenDisk } from "../support/frozen_disk.ts";
import { type RawConnection, sized } from "../support/raw_http.ts";
import { Scratch } from "../support/scratch.ts";
import { withDaemonAsRoot } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;
/** More than there are native threads for either direction. */
const MANY = 40;

/** Asks for the same over as many connections. */
async function ask(daemon: Daemon, count: number, head: Uint8Array): Promise<RawConnection[]> {
  const connections = await Promise.all(Array.from({ length: count }, () => daemon.connect()));
  for (const connection of connections) await connection.send(head);
  return connections;
}

function get(daemon: Daemon, url: string): Uint8Array {
  return daemon.request("GET", url);
}

/** A file of one line that takes any scan minutes. */
function endless(scratch: Scratch): string {
  const path = scratch.file("endless", "");
  Deno.truncateSync(path, 4 * 2 ** 40);
  return path;
}

withDaemonAsRoot.test("searches for a line take turns with other downloads, and end when their clients leave", async ({ daemon, scratch }) => {
  const small = scratch.file("small", "content");
  strictEqual(await (await daemon.guest.readFile(small)).text(), "content");
  const fds = daemon.fdCount();
  const url = fileUrl("file", endless(scratch), { start_line: "2" });
  const connections = await ask(daemon, MANY, get(daemon, url));
  await eventually("the searches", () => daemon.fdCount() >= fds + MANY);
  strictEqual(await (await daemon.guest.readFile(small)).text(), "content");
  await rejects(daemon.guest.downloadTar(scratch.path), TooLarge);
  for (const connection of connections) connection[Symbol.dispose]();
  await eventually("every file closed", () => daemon.fdCount() <= fds + 3);
});

asRoot.test("a search for a line ends with the daemon", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DRAIN_SECS: "0" } });
  const fds = daemon.fdCount();
  const url = fileUrl("file", endless(scratch), { start_line: "2" });
  const [connection] = await ask(daemon, 1, get(daemon, url));
  await eventually("the search", () => daemon.fdCount() >= fds + 2);
  strictEqual(await daemon.stop(), 0);
  await daemon.log.until("the stop", ({ msg }) => msg === "a transfer was stopped");
  connection?.[Symbol.dispose]();
});

Deno.test("a disk that hangs holds up uploads to itself alone, and takes no memory that counts", async () => {
  using disk = FrozenDisk.mount(64 * MIB);
  if (disk === undefined) return console.log("skipped: no disk can be mounted and frozen here");
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DISK_RESERVE_BYTES: "0" } });
  await daemon.guest.writeFile(scratch.join("first"), new Uint8Array(5 * MIB));
  const idle = daemon.rss();
  // All of these begin to write, and only then it hangs.
  const connections: RawConnection[] = [];
  for (let at = 0; at < 60; at++) {
    const head = daemon.request("PUT", fileUrl("file", disk.join(`f${at}`)), [sized(9 * MIB)]);
    connections.push(...await ask(daemon, 1, head));
  }
  await eventually("the uploads", () => daemon.fdCount() >= 120);
  disk.freeze();
  const sending = connections.map((connection) =>
    connection.send(new Uint8Array(8 * MIB)).catch(() => {})
  );
  // Some whose files are not even open yet.
  const late = await ask(
    daemon,
    MANY,
    daemon.request("PUT", fileUrl("file", disk.join("late")), [sized(9)], "123456789"),
  );
  await daemon.guest.writeFile(scratch.join("other"), new Uint8Array(20 * MIB));
  const more = (daemon.rss() - idle) / MIB;
  ok(more < 150, `${more.toFixed(0)} MiB more for 60 uploads`);
  const fds = daemon.fdCount();
  for (const connection of [...connections, ...late]) connection[Symbol.dispose]();
  await Promise.all(sending);
  // What waited for a thread is dropped; only what is inside the kernel has to wait.
  await eventually("the others dropped", () => daemon.fdCount() <= fds - MANY);
  await daemon.guest.writeFile(scratch.join("again"), "x");
  disk.thaw();
  await eventually("nothing of them left", () => {
    const names = [...Deno.readDirSync(disk.path)].map(({ name }) => name);
    return names.every((name) => name === "lost+found" || name === "late");
  });
  deepStrictEqual(Deno.readTextFileSync(scratch.join("again")), "x");
});
