import { strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { text } from "../support/answers.ts";
import { Daemon } from "../support/daemon.ts";

/** A pid namespace in which the daemon is PID 1 and may not power off: a container. */
const CONTAINER = [
  "unshare",
  "--pid",
  "--fork",
  "--mount-proc",
  "setpriv",
  "--bounding-set=-sys_boot",
  "--inh-caps=-sys_boot",
];

asRoot.test("as PID 1 of a container, which cannot be powered off, the daemon exits with 0", async () => {
  await using daemon = await Daemon.start({ through: CONTAINER });
  await text(await daemon.hook("terminate"));
  strictEqual(await daemon.end(), 0);
  await daemon.log.until("a warning", ({ msg }) => msg === "the guest was not powered off");
});
