import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { Guest } from "../../src/client/guest.ts";
import { plain, text } from "../support/answers.ts";
import { Daemon, LAUNCHER, runOnce } from "../support/daemon.ts";
import { LogLines } from "../support/log_lines.ts";
import { Scratch } from "../support/scratch.ts";

const BUILD = new URL("../../build.sh", import.meta.url).pathname;

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
  ok(warnings.some(({ msg }) => msg.includes('not "no slash"')));
});

Deno.test("a slip in the environment is named at the start, and the daemon serves all the same", async () => {
  using scratch = new Scratch();
  const file = scratch.file("file", "");
  const cases: readonly (readonly [variable: string, value: string, says: RegExp])[] = [
    ["GUESTD_KILL_GRACE", "1", /GUESTD_KILL_GRACE is no setting/],
    ["GUESTD_SPOOL_DIR", scratch.join("none"), /GUESTD_SPOOL_DIR.*\/none: ENOENT/],
    ["GUESTD_SPOOL_DIR", file, /GUESTD_SPOOL_DIR.*\/file: it is no directory/],
    ["GUESTD_DRAIN_SECS", "so\non", /GUESTD_DRAIN_SECS must be .*not .*so.*n.*on/],
  ];
  for (const [variable, value, says] of cases) {
    await using daemon = await Daemon.start({ env: { [variable]: value } });
    await daemon.log.until(`a word on ${variable}`, (line) => says.test(JSON.stringify(line)));
    await daemon.logWritten();
    deepStrictEqual(daemon.log.lines.filter(({ level }) => level === "warn").length, 1);
  }
  await using daemon = await Daemon.start({ env: { GUESTD_SPOOL_DIR: scratch.path } });
  strictEqual(await daemon.stop(), 0);
  deepStrictEqual(daemon.log.lines.filter(({ level }) => level === "warn"), []);
});

Deno.test("a reserve of any 64 bits is in force, and published with all its digits", async () => {
  const most = "18446744073709551615";
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_DISK_RESERVE_BYTES: most } });
  const health = await text(await daemon.fetch("/v1/health"));
  ok(health.includes(`"reserve_bytes":${most},"under_pressure":true`), health);
  using scratch = new Scratch();
  const path = `/v1/fs/file?path=${scratch.join("x")}`;
  const line = await plain(await daemon.fetch(path, { method: "PUT", body: "x" }), 507);
  ok(line.includes(most), line);
});

Deno.test("a variable that is no UTF-8 is as good as not set, for the daemon must start", async () => {
  const through = ["bash", "-c", `GUESTD_DRAIN_SECS=$'\\xff' exec "$0"`];
  await using daemon = await Daemon.bootstrapped({ through });
  strictEqual((await daemon.outcome(await daemon.exec("exit 3"))).exit_code, 3);
});

Deno.test("an address that cannot be had is named with its variable", async () => {
  await using daemon = await Daemon.start();
  for (const address of [`127.0.0.1:${daemon.port}`, "192.0.2.1:9000"]) {
    const { code, stderr } = await runOnce([], { GUESTD_LISTEN: address });
    strictEqual(code, 1);
    const { msg, cause } = JSON.parse(stderr.trimEnd().split("\n").at(-1) ?? "");
    strictEqual(msg, "cannot serve");
    match(cause, new RegExp(`^Cannot listen on ${address} \\(GUESTD_LISTEN\\): .+$`));
  }
});

/** An address that no machine has, whether its kernel knows vsock or not. */
const NO_VSOCK = "vsock:4294967293:9000";

Deno.test("of several addresses those that can be had are served, and a warning names the others", async () => {
  using second = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = second.addr;
  second.close();
  const given = ["127.0.0.1:0", NO_VSOCK, `127.0.0.2:${port}`];
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_LISTEN: given.join() } });
  await daemon.log.until("the other listen", (line) => line["hostname"] === "127.0.0.2");
  const other = new Guest(`http://127.0.0.2:${port}`, { token: daemon.token, retryMs: 0 });
  strictEqual((await other.health()).bootstrapped, true);
  const { cause } = await daemon.log.until("a warning", ({ level }) => level === "warn");
  match(String(cause), new RegExp(`^Cannot listen on ${NO_VSOCK} \\(GUESTD_LISTEN\\): .+$`));
});

Deno.test("where no address can be had and vsock is among them, the daemon tries again until one can", async () => {
  await using first = await Daemon.start();
  const address = `127.0.0.1:${first.port}`;
  const child = new Deno.Command(LAUNCHER, {
    clearEnv: true,
    env: { GUESTD_LISTEN: `${NO_VSOCK},${address}` },
    stderr: "piped",
  }).spawn();
  const log = new LogLines(child.stderr);
  for (const tried of [NO_VSOCK, address]) {
    await log.until(`an error about ${tried}`, ({ msg, ...line }) => {
      const { cause } = line as { readonly cause?: unknown };
      return msg === "no address can be had: trying again" &&
        String(cause).includes(` on ${tried} (`);
    });
  }
  strictEqual(await first.stop(), 0);
  const line = await log.until("it listen", ({ msg }) => msg === "listening");
  strictEqual(line["port"], first.port);
  // The other one is not tried any more.
  const { cause } = await log.until("a warning", ({ level }) => level === "warn");
  strictEqual(cause, `Cannot listen on ${NO_VSOCK}`);
  child.kill("SIGTERM");
  strictEqual((await child.status).code, 0);
  await log.ended;
});

Deno.test("build.sh run keeps an address without a host on loopback", async () => {
  await using other = await Daemon.start();
  strictEqual(await other.stop(), 0);
  const address = { GUESTD_LISTEN: String(other.port) };
  const child = new Deno.Command(BUILD, { args: ["run"], env: address, stderr: "piped" }).spawn();
  const log = new LogLines(child.stderr);
  const line = await log.until("it listen", ({ msg }) => msg === "listening");
  deepStrictEqual([line["hostname"], line["port"]], ["127.0.0.1", other.port]);
  child.kill("SIGTERM");
  strictEqual((await child.status).code, 0);
  await log.ended;
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
  strictEqual(await daemon.guest.kill(stream.id), true);
  strictEqual((await stream.rest()).exit.signal, 9);
});
