import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert/strict";
import {
  AlreadyAcked,
  GuestError,
  NotBootstrapped,
  OutputTooLarge,
  Refused,
  SpawnFailed,
  StdinClosed,
  StdinTimeout,
  StillRunning,
  Unauthorized,
  UnknownExec,
} from "../../src/client/errors.ts";
import { FetchTransport } from "../../src/client/fetch_transport.ts";
import { Guest } from "../../src/client/guest.ts";
import type { TransportRequest } from "../../src/client/transport.ts";
import { eventually } from "../support/await_event.ts";
import { digest, noise } from "../support/bytes.ts";
import { Daemon } from "../support/daemon.ts";
import { Scratch } from "../support/scratch.ts";
import { withStarted } from "../support/with_daemon.ts";
import { withGuest, withLongReplay } from "../support/with_guest.ts";

const MIB = 1024 * 1024;
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

withGuest.test("a command gets its arguments, directory and environment, and says how it ended", async ({ guest }) => {
  const script = 'printf "%s|" "$0" "$@" "$PWD" "$NAME"; echo oops >&2; exit 7';
  const command = guest.command("sh", {
    args: ["-c", script, "a b", "ü"],
    cwd: "/tmp",
    env: { NAME: "value" },
  });
  const { stdout, stderr, ...status } = await command.output();
  strictEqual(text(stdout), "a b|ü|/tmp|value|");
  strictEqual(text(stderr), "oops\n");
  const writersMayBeAlive = false;
  deepStrictEqual(status, {
    success: false,
    code: 7,
    signal: null,
    writersMayBeAlive,
    offset: 23n,
  });
});

withGuest.test("a result is acked once it was read, and kept where that is asked for", async ({ guest, daemon }) => {
  const read = await guest.command("echo", { args: ["x"], id: "read" }).output();
  strictEqual(text(read.stdout), "x\n");
  await rejects(guest.ack("read"), AlreadyAcked);
  await guest.command("echo", { args: ["x"], id: "kept", keep: true }).output();
  strictEqual((await guest.poll("kept")).stdout, "x\n");
  strictEqual((await guest.ack("kept")).stdout, "x\n");
  const unread = await guest.command("echo", { args: ["x"], id: "unread" }).spawn();
  ok((await unread.status).success);
  strictEqual((await daemon.guest.poll("unread")).phase, "exited");
  strictEqual(text(await new Response(unread.stdout).bytes()), "x\n");
  strictEqual(text(await new Response(unread.stderr).bytes()), "");
  await eventually("the ack", async () => (await daemon.guest.poll("unread")).phase === "acked");
});

withGuest.test("what ends a command: a timeout, a kill, an abort, the end of its block", async ({ guest, daemon }) => {
  const sleep = { args: ["600"] } as const;
  strictEqual((await guest.command("sleep", { ...sleep, timeout: 50 }).output()).signal, "SIGTERM");
  const killed = await guest.command("sleep", sleep).spawn();
  strictEqual(await killed.kill(), true);
  strictEqual((await killed.status).code, 143);
  const { signal, ...controller } = abortable();
  const aborted = await guest.command("sleep", { ...sleep, signal }).spawn();
  controller.abort();
  strictEqual((await aborted.status).signal, "SIGTERM");
  await rejects(guest.command("sleep", { ...sleep, signal }).spawn(), { name: "AbortError" });
  {
    await using child = await guest.command("sleep", { ...sleep, id: "scoped" }).spawn();
    strictEqual((await guest.poll(child.id)).phase, "running");
  }
  strictEqual((await daemon.guest.poll("scoped")).phase, "acked");
});

withGuest.test("who attaches and detaches leaves the command alone", async ({ guest }) => {
  const id = (await guest.shell("echo begun; read line; echo $line", { stdin: "piped", keep: true })
    .spawn()).id;
  {
    await using watcher = guest.attach(id);
    const { value } = await watcher.stdout.getReader().read();
    strictEqual(text(value ?? new Uint8Array()), "begun\n");
  }
  const back = guest.attach(id, { offset: 6, stdin: "piped" });
  const writer = back.stdin.getWriter();
  await writer.write(new TextEncoder().encode("on\n"));
  strictEqual(text((await back.output()).stdout), "on\n");
});

withLongReplay.test("an ack does not bring a long result again", async ({ daemon }) => {
  let acked = 0;
  const counting: typeof fetch = async (url, init) => {
    const answer = await fetch(url, init);
    if (!String(url).endsWith("/ack")) return answer;
    const count = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(piece, controller): void {
        acked += piece.length;
        controller.enqueue(piece);
      },
    });
    return new Response(answer.body?.pipeThrough(count) ?? null, answer);
  };
  const transport = new FetchTransport({ fetch: counting });
  const guest = new Guest(daemon.url, { token: daemon.token, transport });
  const args = ["-c", String(8 * MIB), "/dev/zero"];
  const { stdout } = await guest.command("head", { args, id: "long" }).output();
  strictEqual(stdout.length, 8 * MIB);
  strictEqual((await guest.poll("long")).phase, "acked");
  ok(acked > 0 && acked < MIB, `${acked} bytes of the ack's answer were read`);
});

Deno.test("stdin goes in whole and in order, past the limit of one write and a child that sleeps", async () => {
  using scratch = new Scratch();
  const env = { GUESTD_MAX_STDIN_WRITE_BYTES: "100000", GUESTD_STDIN_WRITE_TIMEOUT_SECS: "0.1" };
  await using daemon = await Daemon.bootstrapped({ env });
  const statuses: number[] = [];
  class Watched extends FetchTransport {
    override async request(url: string, request: TransportRequest): Promise<Response> {
      const response = await super.request(url, request);
      statuses.push(response.status);
      return response;
    }
  }
  const guest = new Guest(daemon.url, { token: daemon.token, transport: new Watched() });
  const bytes = noise(3 * MIB);
  const go = scratch.join("go");
  const child = await guest.shell(`while [ ! -e ${go} ]; do sleep 0.05; done; exec cat`, {
    stdin: "piped",
  }).spawn();
  const sent = new Blob([bytes]).stream().pipeTo(child.stdin);
  await eventually("a write that timed out", () => statuses.filter((s) => s === 408).length > 2);
  Deno.writeTextFileSync(go, "");
  const { stdout } = await child.output();
  await sent;
  // The first write was more than the guest takes at once.
  ok(statuses.includes(413));
  strictEqual(await digest(stdout), await digest(bytes));
});

withGuest.test("a child that stopped reading is told from one that does not read now", async ({ guest, daemon }) => {
  const closed = await guest.shell("exec <&-; echo closed; exec sleep 600", { stdin: "piped" })
    .spawn();
  await closed.stdout.getReader().read();
  const writer = closed.stdin.getWriter();
  await rejects(writer.write(new Uint8Array(10)), StdinClosed);
  await daemon.guest.kill(closed.id);
});

Deno.test("a write that the child did not read in time says how much went", async () => {
  const env = { GUESTD_STDIN_WRITE_TIMEOUT_SECS: "0.1" };
  await using daemon = await Daemon.bootstrapped({ env });
  const guest = new Guest(daemon.url, { token: daemon.token });
  await using child = await guest.command("sleep", { args: ["600"], stdin: "piped" }).spawn();
  const late = await guest.writeStdin(child.id, new Uint8Array(MIB)).catch((error) => error);
  ok(late instanceof StdinTimeout, String(late));
  deepStrictEqual([late.status, late.written], [408, 65536]);
});

withGuest.test("more output than is wanted kills the command", async ({ guest, daemon }) => {
  // Less than the window: whoever comes late on a busy machine finds all of it.
  const endless = guest.shell("head -c 200000 /dev/zero; exec sleep 600", { id: "endless" });
  await rejects(endless.output({ maxBytes: 100_000 }), OutputTooLarge);
  strictEqual((await daemon.guest.poll("endless")).phase, "acked");
});

withGuest.test("refusals are classes with status, slug and prose", async ({ guest, daemon }) => {
  const failed = await guest.command("no-such-program").output().catch((error) => error);
  ok(failed instanceof SpawnFailed && failed instanceof Refused && failed instanceof GuestError);
  deepStrictEqual([failed.status, failed.slug], [500, "spawn_failed"]);
  ok(failed.message.startsWith("Cannot start the command: ") && failed.detail.includes("no-such"));
  await rejects(guest.poll("nobody"), UnknownExec);
  await rejects(guest.attach("nobody").status, UnknownExec);
  await using child = await guest.command("sleep", { args: ["600"] }).spawn();
  await rejects(guest.ack(child.id), StillRunning);
  await rejects(new Guest(daemon.url, { token: "wrong" }).poll("x"), Unauthorized);
  await rejects(new Guest(daemon.url).poll("x"), Unauthorized);
  await rejects(guest.command("true", { timeout: -1 }).output(), { status: 400 });
  for (const id of [".", ".."]) await rejects(guest.poll(id), GuestError);
});

withGuest.test("an id may be any text that a URL can carry", async ({ guest }) => {
  for (const id of ["a/b", "ü? #%2F", "a b", "\n"]) {
    strictEqual(
      text((await guest.command("echo", { args: ["x"], id, keep: true }).output()).stdout),
      "x\n",
    );
    strictEqual((await guest.poll(id)).exec_id, id);
  }
});

withStarted.test("a guest without a token says so", async ({ daemon }) => {
  await rejects(new Guest(daemon.url, { token: "t" }).command("true").output(), NotBootstrapped);
});

function abortable(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
