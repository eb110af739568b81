import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { landing } from "../../src/ctl/copy.ts";
import { progressLine } from "../../src/ctl/progress.ts";
import { within } from "../support/await_event.ts";
import { digest, noise } from "../support/bytes.ts";
import { closedPort } from "../support/closed_port.ts";
import { begun, Forward, GUESTCTL, type Said, said, typed } from "../support/guestctl.ts";
import { Guest as Listener } from "../support/tunnel_guest.ts";
import { withDaemon, withStarted } from "../support/with_daemon.ts";

const decoder = new TextDecoder();

/** A sentence of its own, and nothing else. */
function sentence({ out, said }: Said, about: RegExp): void {
  strictEqual(out, "");
  match(said, /^guestctl: [^\n]+\n$/);
  match(said, about);
}

withDaemon.test("run gives output, exit code, environment, directory and stdin, and leaves nothing in the guest", async ({ daemon }) => {
  const line = 'cat; echo "$A $HOME_IS $PWD" >&2; exit 7';
  const env = ["-e", "A=b c", "-e", "HOME_IS=x"];
  const ran = await said(daemon, ["run", "-i", "-w", "/tmp", ...env, "-c", line], "from here");
  deepStrictEqual(ran, { code: 7, out: "from here", said: "b c x /tmp\n" });
  const words = await said(daemon, ["run", "printf", "%s|", "-n", "--", "a b"]);
  strictEqual(words.out, "-n|--|a b|");
  const killed = await said(daemon, ["run", "-t", "0.05", "--", "sleep", "600"]);
  strictEqual(killed.code, 143);
  for (const { exec_id } of await daemon.guest.procs()) {
    strictEqual((await daemon.guest.poll(exec_id)).phase, "acked");
  }
});

withDaemon.test("what goes wrong is a sentence and the right exit code", async ({ daemon }) => {
  const missing = await said(daemon, ["run", "--", "no-such-program"]);
  strictEqual(missing.code, 127);
  sentence(missing, /no-such-program/);
  using closed = await closedPort();
  const own: readonly [args: readonly string[], about: RegExp][] = [
    [["run", "--no-such-option"], /unknown option '--no-such-option'/],
    [["no-such-command"], /unknown command/],
    [["run"], /a program behind --/],
    [["run", "-u", "root", "--", "id"], /UID/],
    [["run", "-t", "soon", "--", "id"], /seconds/],
    [["run", "-e", "=x", "--", "id"], /NAME=VALUE/],
    [["ps", "--url", `http://127.0.0.1:${closed.port}`], /nobody answers/],
    [["ps", "--url", "guest"], /http, https, vsock-unix or vsock/],
    [["ps", "--url", "vsock:0:1"], /Cannot use vsock:0:1: it has to be/],
    [["ps", "--token-file", "/nowhere"], /nowhere/],
    [["poll"], /unknown command/],
    [["wait", "nobody"], /nobody|no exec/i],
    [["cp", "a", "b"], /guest:PATH/],
    [["cp", "guest:/no/such/file", "/tmp"], /no\/such\/file/],
    [["forward", "here:there"], /ADDRESS/],
    [["shell"], /no terminal/],
    [["completions", "cmd"], /bash, zsh and fish/],
  ];
  for (const [args, about] of own) {
    const failed = await said(daemon, args);
    sentence(failed, about);
    strictEqual(failed.code, 125, args.join(" "));
  }
  const wrong = await said({ url: daemon.url, token: "wrong" }, ["ps"]);
  match(wrong.said, /^guestctl: [^\n]*the token is not/);
});

withDaemon.test("a reader that leaves ends the command, too", async ({ daemon }) => {
  const child = begun(daemon, ["run", "--id", "endless", "--", "yes"]);
  const reader = child.stdout.getReader();
  await reader.read();
  await reader.cancel();
  strictEqual((await within("its end", child.status)).code, 141);
  strictEqual((await daemon.guest.poll("endless")).phase, "acked");
});

withDaemon.test("Ctrl-C ends the whole group, or leaves it where that is wanted", async ({ daemon }) => {
  const script = "sleep 600 & echo begun; exec sleep 600";
  const child = begun(daemon, ["run", "--id", "gone", "-c", script]);
  await child.stdout.getReader().read();
  child.kill("SIGINT");
  strictEqual((await within("its end", child.status)).code, 143);
  deepStrictEqual((await daemon.group("gone")).pids, []);

  const left = begun(daemon, ["run", "--detach-on-interrupt", "--id", "left", "-c", script]);
  await left.stdout.getReader().read();
  left.kill("SIGINT");
  const { code } = await within("its end", left.status);
  strictEqual(code, 130);
  match(decoder.decode(await new Response(left.stderr).bytes()), /guestctl attach --offset 6 left/);
  strictEqual((await daemon.group("left")).pids.length, 2);
  strictEqual((await said(daemon, ["kill", "left"])).code, 0);
});

withDaemon.test("a command is detached, listed, waited for, attached and acked", async ({ daemon }) => {
  const { out } = await said(daemon, [
    "run",
    "--detach",
    "--id",
    "job",
    "-c",
    "echo one; echo two; exit 3",
  ]);
  strictEqual(out, "job\n");
  strictEqual((await said(daemon, ["wait", "job"])).code, 3);
  deepStrictEqual(await said(daemon, ["attach", "--offset", "4", "job"]), {
    code: 3,
    out: "two\n",
    said: "",
  });
  match((await said(daemon, ["ps"])).out, /^ID +PHASE +AGE +PROCESSES\njob +exited +\d+s +-\n$/);
  strictEqual(JSON.parse((await said(daemon, ["ps", "--json"])).out)[0].exec_id, "job");
  deepStrictEqual(await said(daemon, ["ack", "job"]), { code: 0, out: "one\ntwo\n", said: "" });
  strictEqual((await said(daemon, ["kill", "job"])).code, 1);
  match((await said(daemon, ["top"])).out, /^guestd .* idle\ncommands 1, processes 0\n/);
  strictEqual(JSON.parse((await said(daemon, ["health"])).out).execs, 1);
  ok(JSON.parse((await said(daemon, ["schema"])).out).routes.length === 20);
});

withDaemon.test("cp brings files and trees there and back", async ({ daemon, scratch }) => {
  const bytes = noise(3_000_000);
  const tree = scratch.join("tree");
  Deno.mkdirSync(`${tree}/sub`, { recursive: true });
  Deno.writeFileSync(`${tree}/sub/bytes`, bytes, { mode: 0o751 });
  Deno.symlinkSync("sub/bytes", `${tree}/link`);
  const cp = async (from: string, to: string, input = ""): Promise<Said> => {
    const copied = await said(daemon, ["cp", from, to], input);
    deepStrictEqual([copied.code, copied.said], [0, ""]);
    return copied;
  };
  const same = async (path: string): Promise<void> =>
    strictEqual(await digest(Deno.readFileSync(path)), await digest(bytes), path);

  await cp(`${tree}/sub/bytes`, `guest:${scratch.join("file")}`);
  await same(scratch.join("file"));
  strictEqual((Deno.statSync(scratch.join("file")).mode ?? 0) & 0o777, 0o751);
  await cp(`guest:${scratch.join("file")}`, scratch.join("back"));
  await same(scratch.join("back"));
  await cp(tree, `guest:${scratch.join("there")}`);
  strictEqual(Deno.readLinkSync(scratch.join("there/link")), "sub/bytes");
  // What is there already gets the directory, or with /. its contents.
  await cp(tree, `guest:${scratch.join("there")}`);
  await same(scratch.join("there/tree/sub/bytes"));
  await cp(`guest:${scratch.join("there")}`, scratch.join("again"));
  await same(scratch.join("again/tree/sub/bytes"));
  await cp("-", `guest:${scratch.join("piped")}`, "through a pipe");
  strictEqual((await cp(`guest:${scratch.join("piped")}`, "-")).out, "through a pipe");
});

Deno.test("cp lands where docker cp does", () => {
  strictEqual(landing("a/file", "file", "b", "nothing"), "b");
  strictEqual(landing("a/file", "file", "b", "file"), "b");
  strictEqual(landing("a/file", "file", "b/", "directory"), "b/file");
  strictEqual(landing("a/dir", "directory", "b", "nothing"), "b");
  strictEqual(landing("a/dir/", "directory", "b", "directory"), "b/dir");
  strictEqual(landing("a/dir/.", "directory", "b", "directory"), "b");
  for (
    const [from, target, to] of [["file", "b/", "nothing"], ["directory", "b", "file"], [
      "nothing",
      "b",
      "nothing",
    ]] as const
  ) {
    const failed = (() => {
      try {
        return landing("a", from, target, to);
      } catch (error) {
        return (error as Error).name;
      }
    })();
    strictEqual(failed, "Error");
  }
});

Deno.test("progress tells what is done, how fast, and what is left", () => {
  const mib = 1024 * 1024;
  strictEqual(progressLine("x", 3 * mib, 12 * mib, 2), "x: 25 %, 3.0 MiB, 1.5 MiB/s, 6 s left");
  strictEqual(progressLine("x", 3 * mib, undefined, 2), "x: 3.0 MiB, 1.5 MiB/s");
});

withStarted.test("bootstrap prints a new token once, and forward leads to the guest's ports, with the identity it stored", async ({ daemon, scratch }) => {
  using listener = new Listener();
  void listener.echo();
  const file = scratch.join("identity");
  const { out } = await said(daemon, ["bootstrap", "-e", "A=b", "--identity", file]);
  daemon.token = out.trim();
  strictEqual((await said(daemon, ["run", "-c", "echo $A"])).out, "b\n");
  strictEqual((Deno.statSync(file).mode ?? 0) & 0o777, 0o600);
  for (const identity of [[], ["--identity", file]]) {
    await using forward = await Forward.of(
      begun(daemon, ["forward", ...identity, `0:${listener.port}`]),
    );
    using connection = await Deno.connect({ hostname: "127.0.0.1", port: forward.port });
    const bytes = noise(500_000);
    const sent = (async () => {
      for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
    })();
    const back = new Uint8Array(bytes.length);
    for (let at = 0; at < back.length;) {
      at += await within("the echo", connection.read(back.subarray(at))) ?? NaN;
    }
    await sent;
    strictEqual(await digest(back), await digest(bytes));
    strictEqual(await forward.interrupted(), 130);
  }
});

withDaemon.test("shell is a terminal of the guest, as large as the window here", async ({ daemon }) => {
  const line = "PS1=; stty size; tty; echo $((6*7))@";
  const answer = /33 99\s+\/dev\/pts\/\d+\s+42@/;
  strictEqual(await typed(daemon, `${GUESTCTL} shell`, line, answer), 5);
});

Deno.test("completions are scripts that their shells take", async () => {
  const daemon = { url: "http://127.0.0.1:9000", token: "" };
  const { out } = await said(daemon, ["completions", "bash"]);
  const probe =
    `${out}\nCOMP_WORDS=(guestctl at); COMP_CWORD=1; _guestctl; echo "\${COMPREPLY[@]}"`;
  const { stdout } = await new Deno.Command("bash", { args: ["-c", probe] }).output();
  strictEqual(decoder.decode(stdout), "attach\n");
  match((await said(daemon, ["completions", "zsh"])).out, /^#compdef guestctl\n/);
  match((await said(daemon, ["completions", "fish"])).out, /-a forward -d '/);
});
