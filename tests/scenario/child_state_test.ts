import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { output } from "../support/command.ts";
import { asRoot } from "../support/as_root.ts";
import { Daemon } from "../support/daemon.ts";
import { withDaemon } from "../support/with_daemon.ts";

/** What /proc/self/status of a bare program says, by field. */
async function status(daemon: Daemon, fields: RegExp): Promise<string[]> {
  const { stdout } = await daemon.outcome(await daemon.exec(["cat", "/proc/self/status"]));
  return stdout.split("\n").filter((line) => fields.test(line)).map((line) =>
    line.replace(/\s+/g, " ")
  );
}

const NONE = "0000000000000000";
const CLEAN = [`SigPnd: ${NONE}`, `SigBlk: ${NONE}`, `SigIgn: ${NONE}`, `SigCgt: ${NONE}`];

Deno.test("a child has them also where the daemon itself was started with signals ignored", async () => {
  await using daemon = await Daemon.bootstrapped({
    through: ["sh", "-c", 'trap "" HUP PIPE QUIT USR1 USR2 CHLD TTIN TTOU; exec "$@"', "sh"],
  });
  deepStrictEqual(await status(daemon, /^Sig(Pnd|Blk|Ign|Cgt):/), CLEAN);
  const { signal } = await daemon.outcome(await daemon.exec("kill -PIPE $$; sleep 10"));
  strictEqual(signal, 13);
});

withDaemon.test("a child has the descriptors 0, 1 and 2 and no other, however many the daemon has", async ({ daemon }) => {
  const others = await Promise.all(
    Array.from({ length: 10 }, () => daemon.exec(["cat"], { stdin: "piped" })),
  );
  const streams = await Promise.all(others.map((id) => daemon.stream(id)));
  for (const stdin of ["null", "piped"] as const) {
    const id = await daemon.exec("ls /proc/$$/fd", { stdin });
    strictEqual((await daemon.outcome(id)).stdout, "0\n1\n2\n");
  }
  for (const stream of streams) await stream[Symbol.asyncDispose]();
});

Deno.test("a child's umask, niceness and dumpability are the daemon's own start's", async () => {
  await using daemon = await Daemon.bootstrapped({
    through: ["sh", "-c", 'umask 027; exec "$@"', "sh", "nice", "-n", "3"],
  });
  const id = await daemon.exec("umask; nice; cat /proc/self/oom_score_adj >/dev/null; echo fine");
  // The tests may run under nice themselves.
  const niceness = Number(output("nice")) + 3;
  strictEqual((await daemon.outcome(id)).stdout, `0027\n${niceness}\nfine\n`);
});

asRoot.test("the daemon's memory and environment are closed to a child that is demoted", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { SECRET: "s3cret" } });
  const script = `cat /proc/${daemon.pid}/environ; cat /proc/$PPID/environ`;
  const { stdout, stderr } = await daemon.outcome(await daemon.exec(script, { uid: 1234 }));
  strictEqual(stdout, "");
  match(stderr, /denied/);
});

const AUTOGROUP = "/proc/self/autogroup";

Deno.test({
  name:
    "a daemon with a session of its own goes before commands where it may, and a command is an ordinary one",
  ignore: !mayGoFirst(),
}, async () => {
  await using daemon = await Daemon.bootstrapped({ through: ["setsid"] });
  match(Deno.readTextFileSync(`/proc/${daemon.pid}/autogroup`), /nice -6$/m);
  const said = await daemon.outcome(await daemon.exec(["cat", AUTOGROUP]));
  match(said.stdout, /nice 0$/m);
});

/** Whether the kernel shares processors out among sessions, and this process may change a share: CAP_SYS_NICE. */
function mayGoFirst(): boolean {
  const status = Deno.readTextFileSync("/proc/self/status");
  const capabilities = BigInt(`0x${/^CapEff:\s*(\w+)$/m.exec(status)?.[1] ?? "0"}`);
  try {
    Deno.statSync(AUTOGROUP);
  } catch {
    return false;
  }
  return (capabilities >> 23n & 1n) === 1n;
}
