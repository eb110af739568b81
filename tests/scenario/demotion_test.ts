import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import type { CommandOptions } from "../../src/client/command.ts";
import { refused } from "../support/answers.ts";
import { BLOCK } from "../support/child_scripts.ts";
import { Daemon } from "../support/daemon.ts";
import { eventually } from "../support/await_event.ts";
import { isLive } from "../support/proc.ts";
import { withDaemonAsRoot } from "../support/with_daemon.ts";
import { asRoot } from "../support/as_root.ts";

/** What a demoted command says of itself: one line each. */
async function said(daemon: Daemon, script: string, options: CommandOptions): Promise<string[]> {
  const id = await daemon.exec(script, options);
  const { stdout, stderr, exit_code } = await daemon.outcome(id);
  deepStrictEqual([stderr, exit_code], ["", 0]);
  return stdout.trimEnd().split("\n");
}

withDaemonAsRoot.test("a demoted command has all ids of its user and group, no capability, and is killed like any other", async ({ daemon }) => {
  const script = "grep -E '^(Uid|Gid|Groups):' /proc/self/status | tr -s '\\t ' ' ' | sed 's/ $//'";
  deepStrictEqual(await said(daemon, script, { uid: 1234, gid: 5678 }), [
    "Uid: 1234 1234 1234 1234",
    "Gid: 5678 5678 5678 5678",
    "Groups:",
  ]);
  const capabilities = "grep -E '^Cap(Prm|Eff):' /proc/self/status | tr -s '\\t ' ' '";
  deepStrictEqual(await said(daemon, capabilities, { uid: 1234 }), [
    "CapPrm: 0000000000000000",
    "CapEff: 0000000000000000",
  ]);
  await using stream = await daemon.ready(BLOCK, { uid: 1234 });
  const { pids } = await daemon.group(stream.id);
  strictEqual(await daemon.guest.kill(stream.id), true);
  strictEqual(pids.some(isLive), false);
});

withDaemonAsRoot.test("user without group takes the passwd file's primary group, else gid = uid", async ({ daemon }) => {
  const line = Deno.readTextFileSync("/etc/passwd").split("\n")
    .find((entry) => /^[^:]+:[^:]*:([0-9]+):(?!\1:)[1-9][0-9]*:/.test(entry));
  ok(line !== undefined, "some user has a group of another number");
  const [, , uid, gid] = line.split(":");
  deepStrictEqual(await said(daemon, "id -u; id -g", { uid: Number(uid) }), [uid, gid]);
  deepStrictEqual(await said(daemon, "id -u; id -g", { uid: 54321 }), ["54321", "54321"]);
});

asRoot.test("group alone changes the group and drops supplementary groups", async () => {
  await using daemon = await Daemon.bootstrapped({
    through: ["setpriv", "--groups", "10,20,30"],
  });
  deepStrictEqual(await said(daemon, "id -G", {}), ["0 10 20 30"]);
  deepStrictEqual(await said(daemon, "id -u; id -G", { gid: 77 }), ["0", "77"]);
  deepStrictEqual(await said(daemon, "id -u; id -G", { uid: 88 }), ["88", "88"]);
  deepStrictEqual(await said(daemon, "id -G", { uid: 0, gid: 0 }), ["0"]);
});

withDaemonAsRoot.test("the pipes belong to the demoted user, so that /dev/stdout can be opened again", async ({ daemon }) => {
  const script = "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin > /proc/self/fd/1";
  const id = await daemon.exec(script, { uid: 1234, gid: 5678, stdin: "piped" });
  await daemon.stdin(id, "in\n", true);
  const { stdout, stderr, exit_code } = await daemon.outcome(id);
  deepStrictEqual([stdout, stderr, exit_code], ["out\nin\n", "err\n", 0]);
});

withDaemonAsRoot.test("HOME, USER, LOGNAME and SHELL are those of the user in force", async ({ daemon }) => {
  const script = "env | grep -E '^(HOME|USER|LOGNAME|SHELL)=' | sort";
  const [name, , , , , home, shell] = Deno.readTextFileSync("/etc/passwd").split("\n")
    .find((line) => line.startsWith("daemon:"))?.split(":") ?? [];
  deepStrictEqual(await said(daemon, script, { uid: 1 }), [
    `HOME=${home}`,
    `LOGNAME=${name}`,
    `SHELL=${shell}`,
    `USER=${name}`,
  ]);
  deepStrictEqual(await said(daemon, script, { uid: 54321 }), ["HOME=/", "SHELL=/bin/sh"]);
  const own = { uid: 54321, env: { HOME: "/tmp", USER: "me" } };
  deepStrictEqual(await said(daemon, script, own), ["HOME=/tmp", "SHELL=/bin/sh", "USER=me"]);
});

withDaemonAsRoot.test("4294967295 is the kernel's unchanged and nobody's id: spawn_failed", async ({ daemon }) => {
  const cases = [
    [{ user: 4294967295 }, /become the (user|group)/],
    [{ user: 4294967295, group: 0 }, /become the user/],
    [{ group: 4294967295 }, /become the group/],
    [{ user: 0, group: 4294967295 }, /become the group/],
  ] as const;
  for (const [identity, step] of cases) {
    const answer = await daemon.post("/v1/exec/start", {
      exec_id: "x",
      command: ["id"],
      ...identity,
    });
    const { detail } = await refused(answer, 500, "spawn_failed");
    match(detail, step);
    match(detail, /EINVAL/);
  }
  deepStrictEqual(await said(daemon, "id -u", { uid: 4294967294 }), ["4294967294"]);
});

withDaemonAsRoot.test("a program that only its group may run is found after the demotion", async ({ daemon, scratch }) => {
  const program = scratch.file("tool", "#!/bin/sh\necho ran\n", 0o750);
  Deno.chownSync(program, 0, 5678);
  const env = { PATH: `${scratch.path}:/usr/bin:/bin` };
  const may = await daemon.exec(["tool"], { uid: 1234, gid: 5678, env });
  strictEqual((await daemon.outcome(may)).stdout, "ran\n");
  const answer = await daemon.post("/v1/exec/start", {
    exec_id: "x",
    command: ["tool"],
    user: 1234,
    group: 999,
    env,
  });
  match((await refused(answer, 500, "spawn_failed")).detail, /execute the program "tool": EACCES/);
});

asRoot.test("a daemon that is not root cannot change identity: spawn_failed", async () => {
  await using daemon = await Daemon.bootstrapped({
    through: ["setpriv", "--reuid", "1234", "--regid", "1234", "--clear-groups"],
    cwd: "/",
  });
  const id = await daemon.exec("id -u; echo again > /dev/stdout");
  strictEqual((await daemon.outcome(id)).stdout, "1234\nagain\n");
  for (const own of [{ uid: 1234 }, { gid: 1234 }, { uid: 1234, gid: 1234 }]) {
    deepStrictEqual(await said(daemon, "id -u; id -G", own), ["1234", "1234"]);
  }
  for (const identity of [{ user: 0 }, { user: 5 }, { group: 5 }]) {
    const answer = await daemon.post("/v1/exec/start", {
      exec_id: "x",
      command: ["id"],
      ...identity,
    });
    match((await refused(answer, 500, "spawn_failed")).detail, /EPERM/);
  }
  strictEqual((await daemon.guest.health()).execs, 4);
  await eventually("no zombie", async () => (await daemon.group(id)).pids.length === 0);
});

asRoot.test("groups that a daemon may not drop refuse a change to its own user", async () => {
  await using daemon = await Daemon.bootstrapped({
    through: ["setpriv", "--reuid", "1234", "--regid", "1234", "--groups", "77"],
    cwd: "/",
  });
  const own = { exec_id: "x", command: ["id"], user: 1234 };
  const answer = await daemon.post("/v1/exec/start", own);
  match((await refused(answer, 500, "spawn_failed")).detail, /supplementary groups: EPERM/);
});
