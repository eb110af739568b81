import { deepStrictEqual, doesNotMatch, match, strictEqual } from "node:assert/strict";
import { refused } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon } from "../support/daemon.ts";
import { Scratch } from "../support/scratch.ts";
import { sharedDaemon, withDaemonAsRoot } from "../support/with_daemon.ts";
import { asRoot } from "../support/as_root.ts";

type Start = Readonly<Record<string, unknown>>;

/** The detail of a start that fails to spawn; throws unless nothing of it is left. */
async function failure(daemon: Daemon, start: Start): Promise<string> {
  const answer = await daemon.post("/v1/exec/start", { exec_id: "x", ...start });
  const { detail } = await refused(answer, 500, "spawn_failed");
  await refused(await daemon.fetch("/v1/exec/x"), 404, "unknown_exec");
  deepStrictEqual(await daemon.guest.procs(), []);
  return detail;
}

sharedDaemon.test("a program that cannot be executed is spawn_failed with step and errno", async ({ daemon, scratch }) => {
  const env = { PATH: scratch.path };
  scratch.file("data", "no program\n", 0o755);
  scratch.file("plain", "#!/bin/sh\n", 0o644);
  scratch.file("orphan", "#!/no/such/interpreter\n", 0o755);
  scratch.file("empty", "", 0o755);
  Deno.symlinkSync("loop", scratch.join("loop"));
  const cases: readonly [Start, RegExp][] = [
    [{ command: ["/no/such/program"] }, /ENOENT/],
    [{ command: ["no-such-name", "s3cret"] }, /ENOENT/],
    [{ command: [""] }, /ENOENT/],
    [{ command: ["sh"], env }, /ENOENT/],
    [{ command: [scratch.join("plain")] }, /EACCES/],
    [{ command: ["plain"], env }, /EACCES/],
    [{ command: [scratch.path] }, /EACCES/],
    [{ command: [`${scratch.join("plain")}/x`] }, /ENOTDIR/],
    [{ command: [scratch.join("data")] }, /ENOEXEC/],
    [{ command: ["data"], env }, /ENOEXEC/],
    [{ command: [scratch.join("empty")] }, /ENOEXEC/],
    [{ command: [scratch.join("orphan")] }, /ENOENT/],
    [{ command: [scratch.join("loop")] }, /ELOOP/],
    [{ command: ["/" + "x".repeat(5000)] }, /ENAMETOOLONG/],
  ];
  for (const [start, errno] of cases) {
    const detail = await failure(daemon, start);
    match(detail, /^cannot execute the program ".*": /);
    match(detail, errno);
    doesNotMatch(detail, /s3cret/);
  }
});

sharedDaemon.test("a working directory that cannot be entered is spawn_failed with step and errno", async ({ daemon, scratch }) => {
  const cases: readonly [cwd: string, RegExp][] = [
    ["/no/such/directory", /ENOENT/],
    ["", /ENOENT/],
    ["/etc/passwd", /ENOTDIR/],
    [scratch.file("file", ""), /ENOTDIR/],
    [`/${"x".repeat(300)}`, /ENAMETOOLONG/],
  ];
  for (const [cwd, errno] of cases) {
    const detail = await failure(daemon, { command: ["true"], cwd });
    match(detail, /^cannot enter the working directory ".*": /);
    match(detail, errno);
  }
});

withDaemonAsRoot.test("a directory that is closed to the demoted user is spawn_failed", async ({ daemon, scratch }) => {
  const closed = scratch.join("closed");
  Deno.mkdirSync(closed, { mode: 0o700 });
  const detail = await failure(daemon, { command: ["pwd"], cwd: closed, user: 1234 });
  match(detail, /^cannot enter the working directory ".*": EACCES/);
  const id = await daemon.exec(["pwd"], { cwd: closed });
  strictEqual((await daemon.outcome(id)).stdout, `${closed}\n`);
});

sharedDaemon.test("60,000 small arguments and a large environment arrive whole", async ({ daemon }) => {
  const numbers = Array.from({ length: 60_000 }, (_, index) => String(index));
  const id = await daemon.exec([
    "sh",
    "-c",
    'echo $# ${60000}; env | grep -c "^V"',
    "sh",
    ...numbers,
  ], {
    env: Object.fromEntries(numbers.slice(0, 5000).map((name) => [`V${name}`, "x".repeat(40)])),
  });
  strictEqual((await daemon.outcome(id)).stdout, "60000 59999\n5000\n");
});

sharedDaemon.test("a script that cannot be found is the shell's business: exit code 127", async ({ daemon }) => {
  const outcome = await daemon.outcome(await daemon.exec("/no/such/program"));
  strictEqual(outcome.exit_code, 127);
  match(outcome.stderr, /not found/);
});

Deno.test("a program is looked up in the PATH that the child will have, after its chdir", async () => {
  using scratch = new Scratch();
  Deno.mkdirSync(scratch.join("bin"));
  scratch.file("bin/tool", "#!/bin/sh\necho from bin\n", 0o755);
  scratch.file("tool", "#!/bin/sh\necho from here\n", 0o755);
  await using daemon = await Daemon.start();
  await daemon.bootstrap("t", { env: { PATH: `${scratch.join("bin")}:/usr/bin:/bin` } });
  const said = async (command: readonly string[], options = {}): Promise<string> =>
    (await daemon.outcome(await daemon.exec(command, options))).stdout;
  strictEqual(await said(["tool"]), "from bin\n");
  const cwd = scratch.path;
  strictEqual(await said(["tool"], { cwd, env: { PATH: ".:/bin" } }), "from here\n");
  strictEqual(await said(["tool"], { cwd, env: { PATH: ":/bin" } }), "from here\n");
  strictEqual(await said(["tool"], { cwd, env: { PATH: "bin:/bin" } }), "from bin\n");
  strictEqual(await said(["./tool"], { cwd }), "from here\n");
  scratch.file("blocked", "#!/bin/sh\n", 0o644);
  scratch.file("bin/blocked", "#!/bin/sh\necho second\n", 0o755);
  const both = { env: { PATH: `${cwd}:${scratch.join("bin")}:/bin` } };
  strictEqual(await said(["blocked"], both), "second\n");
});

asRoot.test("a user who may have no more processes is spawn_failed with EAGAIN", async () => {
  const demoted = ["--reuid", "4321", "--regid", "4321", "--clear-groups"];
  await using daemon = await Daemon.bootstrapped({ through: ["setpriv", ...demoted], cwd: "/" });
  const limit = async (count: string): Promise<void> => {
    const args = [...demoted, "prlimit", "--pid", `${daemon.pid}`, `--nproc=${count}`];
    strictEqual((await new Deno.Command("setpriv", { args }).output()).code, 0);
  };
  await limit("1:");
  match(await failure(daemon, { command: ["true"] }), /EAGAIN/);
  await limit("1000:");
  strictEqual((await daemon.outcome(await daemon.exec("exit 3"))).exit_code, 3);
});

Deno.test("a start without descriptors left is spawn_failed, and works again later", async () => {
  await using daemon = await Daemon.bootstrapped({ through: ["prlimit", "--nofile=60:60"] });
  const ids: string[] = [];
  let detail = "";
  for (let index = 0; detail === "" && index < 60; index++) {
    const exec_id = `e${index}`;
    const body = { exec_id, command: ["cat"], stdin: true };
    const answer = await daemon.post("/v1/exec/start", body);
    if (answer.status === 200) ids.push(exec_id);
    else detail = (await refused(answer, 500, "spawn_failed")).detail;
  }
  match(detail, /EMFILE/);
  for (const id of ids) await daemon.guest.kill(id);
  for (const id of ids) await daemon.outcome(id);
  await eventually("room for one more", async () => {
    const answer = await daemon.post("/v1/exec/start", { exec_id: "again", command: ["true"] });
    return answer.status === 200;
  });
});
