import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { output } from "../support/command.ts";
import { eventually } from "../support/await_event.ts";
import { BLOCK } from "../support/child_scripts.ts";
import { Daemon, HOOK_PREFIX } from "../support/daemon.ts";
import { withDaemon, withStarted } from "../support/with_daemon.ts";

withStarted.test("health has all nine fields and is 200 before and after bootstrap, token or not", async ({ daemon }) => {
  const fields = Object.keys(daemon.document.$defs["Health"]?.["properties"] ?? {});
  strictEqual(fields.length, 9);
  for (const bootstrapped of [false, true]) {
    if (bootstrapped) await daemon.bootstrap();
    for (const authorization of ["", "Bearer nobody", "nonsense"]) {
      const response = await daemon.fetch("/v1/health", { headers: { authorization } });
      const health = await response.json();
      strictEqual(response.status, 200);
      deepStrictEqual(Object.keys(health), fields);
      strictEqual(health.bootstrapped, bootstrapped);
      strictEqual(health.version, response.headers.get("service-version"));
    }
  }
});

withStarted.test("a fresh daemon is idle, whole and has seen no hook; its disk has what an unprivileged writer has", async ({ daemon }) => {
  const { disk, version, ...rest } = await daemon.guest.health();
  deepStrictEqual(rest, {
    bootstrapped: false,
    identity_degraded: false,
    identity_repaired: false,
    busy: false,
    execs: 0,
    hooks: [],
    hooks_dropped: 0,
  });
  strictEqual(version, daemon.document.daemon_version);
  strictEqual(disk?.reserve_bytes, 256 * 1024 * 1024);
  // What is reserved for root is not available. Others write to the disk: the figure is looked for between two of stat's.
  await eventually("the figure of statfs", async () => {
    const before = leftForOthers();
    const seen = Number((await daemon.guest.health()).disk?.available_bytes);
    const after = leftForOthers();
    return Math.min(before, after) <= seen && seen <= Math.max(before, after);
  });
});

Deno.test("disk gives what an unprivileged writer has and presses below the reserve", async () => {
  const measured = async (reserve: string): Promise<[bigint, bigint, boolean]> => {
    await using daemon = await Daemon.start({ env: { GUESTD_DISK_RESERVE_BYTES: reserve } });
    const { disk } = await daemon.guest.health();
    ok(disk !== null);
    return [BigInt(disk.available_bytes), BigInt(disk.reserve_bytes), disk.under_pressure];
  };
  const [available, none, off] = await measured("0");
  ok(available > 0n);
  deepStrictEqual([none, off], [0n, false]);
  const most = String(Number.MAX_SAFE_INTEGER);
  deepStrictEqual((await measured(most)).slice(1), [BigInt(most), true]);
  deepStrictEqual((await measured("1")).slice(1), [1n, false]);
});

/** What stat(1) says is left on `/` for who is not root, in bytes. */
function leftForOthers(): number {
  const [blocks = 0, size = 0] = output("stat", "-f", "-c", "%a %S", "/").split(" ").map(Number);
  return blocks * size;
}

withDaemon.test("busy is true exactly while an exec has not published its result", async ({ daemon }) => {
  const state = async (): Promise<[boolean, number]> => {
    const { busy, execs } = await daemon.guest.health();
    return [busy, execs];
  };
  deepStrictEqual(await state(), [false, 0]);
  const first = await daemon.exec(BLOCK);
  const second = await daemon.exec("true");
  await daemon.outcome(second);
  deepStrictEqual(await state(), [true, 2]);
  await daemon.guest.kill(first);
  await daemon.follow(first);
  deepStrictEqual(await state(), [false, 2]);
  await daemon.guest.ack(first);
  await daemon.guest.ack(second);
  deepStrictEqual(await state(), [false, 2]);
});

withStarted.test("hooks are reported oldest first, refused and forged ones too, and nothing that is no hook", async ({ daemon }) => {
  const order = ["validate", "ready", "run", "suspend", "resume", "ready"];
  for (const hook of order) await daemon.hook(hook, "no json");
  strictEqual((await daemon.fetch(`${HOOK_PREFIX}/ready`)).status, 405);
  strictEqual((await daemon.hook("restart")).status, 404);
  const { hooks, hooks_dropped } = await daemon.guest.health();
  deepStrictEqual(hooks.map(({ hook }) => hook), order);
  strictEqual(hooks_dropped, 0);
  const times = hooks.map(({ fired_at }) => Number(fired_at));
  deepStrictEqual(times, times.toSorted((a, b) => a - b));
});

withStarted.test("the hook log keeps the first 64 and counts the rest, so none can be pushed out", async ({ daemon }) => {
  await daemon.bootstrap();
  for (let forged = 0; forged < 100; forged++) await daemon.hook("ready");
  await daemon.hook("suspend");
  const { hooks, hooks_dropped } = await daemon.guest.health();
  deepStrictEqual(hooks.map(({ hook }) => hook), ["run", ...Array(63).fill("ready")]);
  strictEqual(hooks_dropped, 38);
});
