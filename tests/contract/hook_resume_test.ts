import { strictEqual } from "node:assert/strict";
import { BLOCK } from "../support/child_scripts.ts";
import { simpleHookTests } from "./simple_hook.ts";
import { withDaemon, withStarted } from "../support/with_daemon.ts";

simpleHookTests("resume");

const WARNING = "resumed without an installed token";

withStarted.test("a resume without a token is logged as a warning, one with a token is not", async ({ daemon }) => {
  strictEqual((await daemon.hook("resume")).status, 200);
  strictEqual((await daemon.log.until("the warning", ({ msg }) => msg === WARNING)).level, "warn");
  await daemon.bootstrap();
  await daemon.hook("resume");
  await daemon.logWritten();
  strictEqual(daemon.log.withMessage(WARNING).length, 1);
});

withDaemon.test("token, execs and backgrounded processes survive a suspend and a resume", async ({ daemon }) => {
  const running = await daemon.exec(BLOCK, { timeout: 3_600_000 });
  const ended = await daemon.exec("echo kept");
  await daemon.outcome(ended);
  await daemon.hook("suspend");
  await daemon.hook("resume");
  strictEqual((await daemon.guest.poll(running)).phase, "running");
  strictEqual((await daemon.guest.poll(ended)).stdout, "kept\n");
  strictEqual((await daemon.group(running)).pids.length, 1);
});
