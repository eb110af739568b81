import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { Daemon, runOnce } from "../support/daemon.ts";

Deno.test("a setting that does not parse is logged and its default kept, for the daemon must start", async () => {
  await using daemon = await Daemon.bootstrapped({
    env: {
      GUESTD_MAX_BODY_BYTES: "-1",
      GUESTD_HOOK_PREFIX: "no slash",
      GUESTD_DRAIN_SECS: "NaN",
    },
  });
  const { limits, hook_prefix } = daemon.document;
  deepStrictEqual([limits["max_body_bytes"], hook_prefix], [536870912, "/platform/runtime/v1"]);
  const warnings = daemon.log.lines.filter(({ level }) => level === "warn");
  for (const name of ["MAX_BODY_BYTES", "HOOK_PREFIX", "DRAIN_SECS"]) {
    ok(warnings.some((line) => JSON.stringify(line).includes(`GUESTD_${name}`)), name);
  }
  strictEqual(warnings.length, 3);
});

Deno.test("GUESTD_LOG is the lowest level that is logged", async () => {
  const levels = async (level: string): Promise<string[]> => {
    // A setting that does not parse makes a warning, the start a line of information.
    const env = { GUESTD_LOG: level, GUESTD_DRAIN_SECS: "x" };
    await using daemon = await Daemon.start({ env });
    await daemon.hook("resume");
    strictEqual(await daemon.stop(), 0);
    await daemon.log.ended;
    return [...new Set(daemon.log.lines.map((line) => line.level))].toSorted();
  };
  deepStrictEqual(await levels("info"), ["info", "warn"]);
  deepStrictEqual(await levels("nonsense"), ["info", "warn"]);
});

Deno.test("unknown arguments are one sentence and exit code 2, and nothing is started", async () => {
  const unknown = [["--nonsense"], ["--version", "more"], ["x"], [
    "--listen-default",
    "[::1]:0",
    "x",
  ]];
  for (const args of unknown) {
    const { code, stdout, stderr } = await runOnce(args);
    deepStrictEqual([code, stdout], [2, ""]);
    match(stderr, /^guestd: [^\n]+\n$/);
  }
});

Deno.test("a default of the address that names no host is refused, for it might open the machine", async () => {
  for (const listenDefault of [[], ["9000"], ["nonsense"]]) {
    const { code, stderr } = await runOnce(["--listen-default", ...listenDefault]);
    strictEqual(code, 1);
    match(stderr, /Cannot listen there by default/);
  }
  const { code, stdout } = await runOnce(["--listen-default", "127.0.0.1:0", "--help"]);
  strictEqual(code, 0);
  match(stdout, /^ {2}GUESTD_LISTEN=127\.0\.0\.1:0$/m);
});

Deno.test("a kill grace of 0 is SIGKILL at once", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_KILL_GRACE_SECS: "0" } });
  await using stream = await daemon.ready("trap '' TERM; echo ready; exec sleep infinity");
  strictEqual((await daemon.kill(stream.id)).killed, true);
  strictEqual((await stream.rest()).exit.signal, 9);
});
