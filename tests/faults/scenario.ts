/**
 * The scenario, in parts that each use the daemon in one way and compare what comes back. Whatever fails beneath it, a
 * part ends in one of two ways: all is as it should be, or the daemon said that it could not ({@link isHonest}).
 */

import { deepStrictEqual } from "node:assert/strict";
import type { PollResponse } from "../../src/contract/exec.ts";
import { Refused, StdinClosed } from "../../src/client/errors.ts";
import { text, UnexpectedStatus } from "../support/answers.ts";
import { eventually, within } from "../support/await_event.ts";
import { type Daemon, execPath } from "../support/daemon.ts";
import { getFile, getTar, putFile, putTar } from "../support/files_client.ts";
import { UnexpectedFailure } from "../support/published.ts";
import { archive } from "../support/tar_archive.ts";
import { listTar } from "../support/tar_list.ts";
import { treeOf } from "../support/tree.ts";
import { TunnelClient } from "../support/tunnel_client.ts";
import type { Guest } from "../support/tunnel_guest.ts";

/** What a part works with. */
interface Given {
  readonly daemon: Daemon;
  /** An empty directory. */
  readonly dir: string;
  /** Sends back what comes. */
  readonly guest: Guest;
}

/** What was said otherwise than by a status: in a body that is broken off, a mark on output, a close code. */
class Told extends Error {}

export function isHonest(error: unknown): boolean {
  return error instanceof Told || error instanceof UnexpectedFailure ||
    ((error instanceof Refused || error instanceof UnexpectedStatus) && error.status >= 500);
}

/** Throws unless a command ended by itself in one of these ways: a code, or a signal as a negative number. */
function ended(
  end: Omit<Required<PollResponse>, "stdout" | "stderr" | "exec_id" | "phase">,
  ...ways: number[]
): void {
  if (end.truncated) throw new Told("the output is marked as truncated");
  const way = end.exit_code ?? -(end.signal ?? NaN);
  if (!ways.includes(way) || end.writers_may_be_alive) throw new Error(`it ended by ${way}`);
}

/** So many bytes in an order of their own. */
function pattern(length: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, at) => (at * 31 + (at >> 8)) & 0xff);
}

const LARGE = pattern(700_000);
const TREE = archive([
  { name: "a/", type: "5", mode: 0o755 },
  { name: "a/file", content: pattern(5000) },
  { name: "a/second", type: "1", link: "a/file" },
  { name: "a/large", content: pattern(1_200_000) },
  { name: "b", type: "2", link: "a/file" },
]);

/** The body of a 200, whole. */
async function received(response: Response): Promise<Uint8Array> {
  if (response.status !== 200) await text(response);
  return await response.bytes().catch(() => {
    throw new Told("the body was broken off");
  });
}

/** Uploads, and looks whether the file is there if that was said, and all is as before if not. */
async function uploaded({ daemon, dir }: Given, path: string): Promise<void> {
  const before = treeOf(dir);
  const answer = await putFile(daemon, path, LARGE);
  if (answer.ok) deepStrictEqual(Deno.readFileSync(path), LARGE);
  else deepStrictEqual(treeOf(dir), before);
  deepStrictEqual(treeOf(dir).filter((line) => line.includes(".guestd")), []);
  await text(answer, 204);
}

export const PARTS = {
  async hooks({ daemon }: Given): Promise<void> {
    const payload = JSON.stringify({ agent_token: daemon.token });
    for (const hook of ["suspend", "resume", "run"]) {
      await text(await daemon.hook(hook, { runHookPayload: payload }));
    }
  },

  /** As somebody else and elsewhere: a child has all to do then that it can have to. */
  async command({ daemon }: Given): Promise<void> {
    const options = { uid: 65534, gid: 65534, cwd: "/" };
    const id = await daemon.exec("printf out; printf err >&2; exit 7", options);
    const stream = await daemon.follow(id);
    ended(stream.exit, 7);
    deepStrictEqual([stream.text("stdout"), stream.text("stderr")], ["out", "err"]);
    const ack = await daemon.guest.ack(id);
    ended(ack, 7);
    deepStrictEqual([ack.stdout, ack.stderr], ["out", "err"]);
  },

  async stdin({ daemon }: Given): Promise<void> {
    const id = await daemon.exec(["/bin/cat"], { stdin: "piped" });
    const bytes = "x".repeat(100_000);
    await daemon.stdin(id, bytes, true).catch((error) => {
      // A child whose output cannot be read has ended.
      if (!(error instanceof StdinClosed)) throw error;
    });
    const outcome = await daemon.outcome(id);
    ended(outcome, 0);
    deepStrictEqual(outcome.stdout, bytes);
  },

  async kill({ daemon }: Given): Promise<void> {
    const id = await daemon.exec("sleep 600 & sleep 600");
    await eventually("the group", async () => (await daemon.group(id)).pids.length === 3);
    deepStrictEqual(await daemon.guest.kill(id), true);
    // Where no SIGTERM could be sent there is still SIGKILL.
    ended(await daemon.outcome(id), -15, -9);
    deepStrictEqual((await daemon.group(id)).pids, []);
  },

  async look({ daemon }: Given): Promise<void> {
    const id = await daemon.exec(["/bin/sleep", "600"]);
    const { pids, pgid } = await daemon.group(id);
    deepStrictEqual(pids, [pgid]);
    deepStrictEqual((await daemon.guest.health()).busy, true);
    await daemon.guest.kill(id);
    ended(await daemon.outcome(id), -15, -9);
  },

  async spool({ daemon }: Given): Promise<void> {
    const size = 66 << 20;
    const id = await daemon.exec(`head -c ${size} /dev/zero | tr '\\0' a`);
    // From an offset that is never reached, for the end alone.
    await using stream = await daemon.stream(id, 2n ** 40n);
    await stream.rest();
    const [first] = await Promise.allSettled([daemon.guest.poll(id)]);
    const outcome = first.status === "fulfilled" ? first.value : await daemon.guest.poll(id);
    ended(outcome as Required<PollResponse>, 0);
    if (outcome.stdout?.length !== size || !/^a*$/.test(outcome.stdout)) throw new Error("not all");
    if (first.status === "rejected") throw new Told("a poll was broken off, the next was whole");
    // It has been read: the ack is for its status alone.
    const headers = [daemon.authorization] as [string, string][];
    const ack = await fetch(daemon.url + execPath(id, "ack"), { method: "POST", headers });
    deepStrictEqual(ack.status, 200);
    await ack.body?.cancel();
  },

  async replace(given: Given): Promise<void> {
    Deno.writeTextFileSync(`${given.dir}/old`, "old");
    await uploaded(given, `${given.dir}/old`);
  },

  async create(given: Given): Promise<void> {
    await uploaded(given, `${given.dir}/parent/fresh`);
  },

  async download({ daemon, dir }: Given): Promise<void> {
    const path = `${dir}/file`;
    Deno.writeFileSync(path, LARGE);
    deepStrictEqual(await received(await getFile(daemon, path)), LARGE);
  },

  async lines({ daemon, dir }: Given): Promise<void> {
    const path = `${dir}/file`;
    Deno.writeTextFileSync(path, "one\ntwo\nthree\n");
    const window = await received(await getFile(daemon, path, { start_line: "2", end_line: "2" }));
    deepStrictEqual(new TextDecoder().decode(window), "two\n");
  },

  async extract({ daemon, dir }: Given): Promise<void> {
    await text(await putTar(daemon, `${dir}/deep/root`, TREE), 204);
    const found = treeOf(`${dir}/deep/root`).map((line) => line.replace(/ [0-9a-f]{16}/, ""));
    const files = ["a/file 5000", "a/large 1200000", "a/second 5000 = a/file"];
    deepStrictEqual(found, ["a/", ...files, "b -> a/file"]);
  },

  async pack({ daemon, dir }: Given): Promise<void> {
    Deno.mkdirSync(`${dir}/a`);
    Deno.writeFileSync(`${dir}/a/file`, pattern(5000));
    Deno.linkSync(`${dir}/a/file`, `${dir}/a/second`);
    Deno.writeFileSync(`${dir}/a/large`, LARGE);
    Deno.symlinkSync("a/file", `${dir}/b`);
    const [, ...members] = listTar(await received(await getTar(daemon, dir)));
    deepStrictEqual(members.map(({ name, type, link }) => `${name} ${type} ${link}`), [
      "a/ 5 ",
      "a/file 0 ",
      "a/large 0 ",
      "a/second 1 a/file",
      "b 2 a/file",
    ]);
    deepStrictEqual(members[2]?.content, LARGE);
  },

  async tunnel({ daemon, guest }: Given): Promise<void> {
    using client = await TunnelClient.open(daemon, `?port=${guest.port}`);
    await client.say("hello");
    const back = await within("the echo", client.bytes(5)).catch((error) => {
      throw /"code":45/.test(String(error))
        ? new Told("the tunnel was closed with its code")
        : error;
    });
    deepStrictEqual(new TextDecoder().decode(back), "hello");
  },
} satisfies Record<string, (given: Given) => Promise<void>>;

export type Part = keyof typeof PARTS;
