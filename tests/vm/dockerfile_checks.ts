/**
 * What `image/Dockerfile` makes, driven as its platform would: `./build.sh dockerfile` has started its entrypoint as
 * PID 1, and runs this in the same network.
 */

import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { eventually } from "../support/await_event.ts";
import { Guest } from "./guest.ts";

const GUEST_PORT = 9000;

Deno.test("the Dockerfile's guest answers, runs commands as PID 1 and ends in order", async () => {
  using guest = new Guest(GUEST_PORT);
  await eventually(
    "the guest's daemon",
    async () => await guest.client.health().catch(() => undefined),
  );
  for (const hook of ["ready", "validate"] as const) await guest.client.hooks[hook]();
  await guest.run();
  const { identity_degraded, identity_repaired } = await guest.client.health();
  deepStrictEqual([identity_repaired, identity_degraded], [true, false]);
  match(await guest.sh("tr '\\0' ' ' </proc/1/cmdline"), /guestd\.js/);
  match(await guest.sh("cat /etc/os-release"), /VERSION_CODENAME=bookworm/);
  strictEqual(await guest.sh("id -u; id -g", { uid: 1000, gid: 1000 }), "1000\n1000");
  // Nothing of the build is in what ships.
  strictEqual(
    await guest.sh("ls -d /guestd /usr/local/bin/cargo 2>/dev/null || echo none"),
    "none",
  );
  await guest.client.hooks.terminate();
  const gone = async (): Promise<boolean> =>
    await guest.client.health().then(() => false, () => true);
  await eventually("its end", gone);
});
