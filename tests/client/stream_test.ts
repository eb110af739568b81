import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert/strict";
import { ConnectionLost, OutputGap, Unreachable } from "../../src/client/errors.ts";
import { Guest } from "../../src/client/guest.ts";
import { eventually } from "../support/await_event.ts";
import { digest, noise } from "../support/bytes.ts";
import { closedPort } from "../support/closed_port.ts";
import { withGuest, withLongReplay } from "../support/with_guest.ts";

const MIB = 1024 * 1024;

withLongReplay.test("a stream that is cut again and again brings every byte once", async ({ cutGuest, proxy, scratch }) => {
  const bytes = noise(12 * MIB);
  const offsets: bigint[] = [];
  // Every connection ends in the middle of what is sent.
  proxy.cutAfter = () => 1_300_007;
  const { code, stdout, stderr, offset } = await cutGuest.command("cat", {
    args: [scratch.file("bytes", bytes)],
    onReconnect: (at) => offsets.push(at),
  }).output();
  deepStrictEqual([code, stderr.length, offset], [0, 0, BigInt(bytes.length)]);
  strictEqual(await digest(stdout), await digest(bytes));
  ok(offsets.length >= 10, `${offsets.length} new connections`);
  deepStrictEqual(offsets, offsets.toSorted((a, b) => Number(a - b)));
});

withLongReplay.test("both streams stay apart and in order over cuts", async ({ cutGuest, proxy }) => {
  // More than the largest event: one that never comes whole is no progress.
  proxy.cutAfter = () => 100_003;
  const script = "for n in $(seq 1 20000); do echo out $n; echo err $n >&2; done";
  const { stdout, stderr } = await cutGuest.shell(script).output();
  const lines = (word: string): string =>
    Array.from({ length: 20_000 }, (_, n) => `${word} ${n + 1}\n`).join("");
  strictEqual(new TextDecoder().decode(stdout), lines("out"));
  strictEqual(new TextDecoder().decode(stderr), lines("err"));
  ok(proxy.cuts >= 3);
});

withGuest.test("a start whose answer is lost is sent again under its id and starts nothing twice", async ({ cutGuest, proxy, scratch }) => {
  proxy.cutAfter = (connection) => connection === 1 ? 1 : undefined;
  const { success } = await cutGuest.shell(`echo once >>${scratch.join("starts")}`).output();
  deepStrictEqual([success, proxy.cuts], [true, 1]);
  strictEqual(Deno.readTextFileSync(scratch.join("starts")), "once\n");
});

withGuest.test("output that nobody read in time is an error that names its bytes", async ({ guest, daemon }) => {
  const total = 12 * MIB;
  const id = await daemon.exec(["head", "-c", String(total), "/dev/zero"]);
  await daemon.outcome(id);
  const late = guest.attach(id);
  const gap = await late.status.then(() => undefined, (error) => error);
  ok(gap instanceof OutputGap, String(gap));
  strictEqual(gap.from, 0n);
  await rejects(late.stdout.getReader().read(), gap);
  const { stdout, offset } = await guest.attach(id, { offset: gap.to }).output();
  strictEqual(offset, BigInt(total));
  strictEqual(BigInt(stdout.length), BigInt(total) - gap.to);
});

withGuest.test("who says what to do about a gap reads on behind it", async ({ guest, daemon }) => {
  const id = await daemon.exec(["head", "-c", String(12 * MIB), "/dev/zero"]);
  await daemon.outcome(id);
  const gaps: bigint[] = [];
  const { stdout } = await guest.attach(id, { onGap: (from, to) => gaps.push(to - from) }).output();
  deepStrictEqual(gaps, [BigInt(12 * MIB - stdout.length)]);
});

withGuest.test("the exit comes without the output where nobody wants that", async ({ guest, daemon }) => {
  const options = { args: ["-c", String(12 * MIB), "/dev/zero"] } as const;
  const command = guest.command("head", { ...options, stdout: "null", stderr: "null" });
  const { success, offset, stdout } = await command.output();
  deepStrictEqual([success, offset, stdout.length], [true, BigInt(12 * MIB), 0]);
  await eventually("the ack", async () => (await daemon.guest.health()).busy === false);
});

withGuest.test("a guest that stays away is an error, once the time for it is over", async ({ daemon, proxy }) => {
  const guest = new Guest(proxy.url, { token: daemon.token, retryMs: 300 });
  const child = await guest.shell("echo begun; exec sleep 600").spawn();
  await child.stdout.getReader().read();
  proxy.close();
  await rejects(
    child.status,
    (error) => error instanceof Unreachable || error instanceof ConnectionLost,
  );
  await daemon.guest.kill(child.id);
});

Deno.test("an address where nobody listens is told of at once", async () => {
  using closed = await closedPort();
  const guest = new Guest(`http://127.0.0.1:${closed.port}`, { token: "t" });
  const begun = performance.now();
  await rejects(guest.poll("x"), Unreachable);
  await rejects(guest.attach("x").status, Unreachable);
  ok(performance.now() - begun < 5_000);
});
