import { ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { Daemon } from "../support/daemon.ts";
import { faultyStatfs } from "../support/fault.ts";
import { Scratch } from "../support/scratch.ts";

/** The threads of a process that are in `statfs` at this moment. */
function waitingInStatfs(pid: number): number {
  const number = Deno.build.arch === "x86_64" ? "137" : "43";
  const calls = [...Deno.readDirSync(`/proc/${pid}/task`)].map(({ name }) =>
    Deno.readTextFileSync(`/proc/${pid}/task/${name}/syscall`)
  );
  return calls.filter((call) => call.startsWith(`${number} `)).length;
}

Deno.test("free space that cannot be measured is null in health, and no write is refused for it", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({
    through: faultyStatfs(scratch, "fails"),
    env: { GUESTD_DISK_RESERVE_BYTES: "9007199254740991" },
  });
  strictEqual((await daemon.guest.health()).disk, null);
  const path = scratch.join("written");
  const answer = await daemon.fetch(`/v1/fs/file?path=${path}`, { method: "PUT", body: "whole" });
  strictEqual(answer.status, 204);
  strictEqual(Deno.readTextFileSync(path), "whole");
});

asRoot.test("a file system that hangs costs health a second and one thread, and nothing else", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({
    through: faultyStatfs(scratch, "hangs"),
  });
  strictEqual((await daemon.guest.health()).disk, null);
  const answers = await Promise.all(Array.from({ length: 20 }, () => daemon.guest.health()));
  ok(answers.every(({ disk }) => disk === null));
  strictEqual(waitingInStatfs(daemon.pid), 1);
  const id = await daemon.exec("echo meanwhile");
  strictEqual((await daemon.outcome(id)).stdout, "meanwhile\n");
  strictEqual(await daemon.stop(), 0);
});
