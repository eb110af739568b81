/**
 * The scenario, in parts that each use the daemon in one way and compare all that comes back. Whatever fails beneath,
 * a part ends in one of two ways: everything was as it should be, or the daemon said honestly that it could not.
 */

import { UnexpectedStatus } from "../support/answers.ts";
import { within } from "../support/await_event.ts";
import { concat } from "../support/bytes.ts";
import { execPath, HOOK_PREFIX } from "../support/daemon.ts";
import type { Daemon } from "../support/daemon.ts";
import { getFile, getTar, putFile, putTar } from "../support/files_client.ts";
import { archive } from "../support/tar_archive.ts";
import { listTar } from "../support/tar_list.ts";
import { treeOf } from "../support/tree.ts";
import { TunnelClient } from "../support/tunnel_client.ts";
import type { Guest } from "../support/tunnel_guest.ts";
import { text } from "../support/answers.ts";

/** What a part works with. */
export interface Given {
  readonly daemon: Daemon;
  /** An empty directory. */
  readonly dir: string;
  /** Sends back what comes. */
  readonly guest: Guest;
}

/** A reading of something that is not as it should be. */
export class Fault extends Error {}

/** The daemon broke a body off in its middle, as it does for what fails behind the head of an answer. */
class BrokenOff extends Error {}

/** Whether a part ended by an honest answer. */
export function isRefusal(error: unknown): boolean {
  return error instanceof BrokenOff || (error instanceof UnexpectedStatus && error.status >= 500);
}

function same(what: string, seen: unknown, wanted: unknown): void {
  const [left, right] = [JSON.stringify(seen), JSON.stringify(wanted)];
  if (left !== right) throw new Fault(`${what} is ${left.slice(0, 300)}, not ${right.slice(0, 300)}`);
}

function sameBytes(what: string, seen: Uint8Array, wanted: Uint8Array): void {
  if (seen.length !== wanted.length || seen.some((byte, at) => byte !== wanted[at])) {
    throw new Fault(`${what} has ${seen.length} bytes which are not the ${wanted.length} wanted`);
  }
}

/** So many bytes, of which none is like its neighbours. */
function pattern(length: number, seed = 1): Uint8Array<ArrayBuffer> {
  return Uint8Array.from({ length }, (_, at) => (at * 31 + (at >> 8) + seed) & 0xff);
}

const OLD = pattern(1000, 9);
const NEW = pattern(700_000);
const TREE = archive([
  { name: "a/", type: "5", mode: 0o755 },
  { name: "a/file", content: pattern(5000) },
  { name: "a/second", type: "1", link: "a/file" },
  { name: "a/large", content: pattern(1_200_000) },
  { name: "b", type: "2", link: "a/file" },
]);
const LISTED = listTar(TREE).map(({ name, type, link, content }) => [name, type, link, content.length]);

async function received(response: Response): Promise<Uint8Array> {
  if (response.status !== 200) await text(response);
  try {
    return await response.bytes();
  } catch (error) {
    throw new BrokenOff("the body was broken off", { cause: error });
  }
}

const hooks = async ({ daemon }: Given): Promise<void> => {
  await text(await daemon.hook("suspend"));
  await text(await daemon.hook("resume"));
  const payload = JSON.stringify({ agent_token: daemon.token });
  await text(await daemon.hook("run", { runHookPayload: payload }));
  await text(await daemon.post(`${HOOK_PREFIX}/ready`));
};

const command = async ({ daemon }: Given): Promise<void> => {
  const id = await daemon.exec("printf out; printf err >&2; exit 7");
  const rest = await daemon.follow(id);
  rest.contiguous();
  const { exit_code, signal, truncated, writers_may_be_alive } = rest.exit;
  const seen = [exit_code, signal, truncated, writers_may_be_alive];
  same("the exit", [...seen, rest.text("stdout"), rest.text("stderr")], [7, null, false, false, "out", "err"]);
  const { stdout, stderr, exit_code: code } = await daemon.ack(id);
  same("the ack", [code, stdout, stderr], [7, "out", "err"]);
};

const stdin = async ({ daemon }: Given): Promise<void> => {
  const id = await daemon.exec(["/bin/cat"], { stdin: true });
  const text = "x".repeat(100_000);
  same("what was written", (await daemon.stdin(id, text)).written, text.length);
  same("the end", (await daemon.stdin(id, "", true)).eof, true);
  const outcome = await daemon.outcome(id);
  same("the exit", [outcome.exit_code, outcome.signal], [0, null]);
  same("the output's length", outcome.stdout.length, text.length);
};

const kill = async ({ daemon }: Given): Promise<void> => {
  const id = await daemon.exec("sleep 600 & echo ready; sleep 600");
  await using stream = await daemon.stream(id);
  await stream.untilOutput("ready");
  same("the kill", (await daemon.kill(id)).killed, true);
  const { exit } = await stream.rest();
  same("the exit", [exit.exit_code, exit.signal], [null, 15]);
  same("the members", (await daemon.group(id)).pids, []);
};

const spool = async ({ daemon }: Given): Promise<void> => {
  const size = 72 << 20;
  const id = await daemon.exec(`head -c ${size} /dev/zero | tr '\\0' a`);
  // From an offset that is never reached: the end alone.
  await using stream = await daemon.stream(id, 2n ** 40n);
  await stream.rest();
  const { stdout, exit_code, truncated } = await daemon.ack(id);
  same("the ack", [exit_code, truncated, stdout.length], [0, false, size]);
  if (!/^a*$/.test(stdout)) throw new Fault("the output is another one");
};

const look = async ({ daemon }: Given): Promise<void> => {
  const id = await daemon.exec("echo ready; sleep 600");
  await using stream = await daemon.stream(id);
  await stream.untilOutput("ready");
  const { pids, pgid } = await daemon.group(id);
  if (pgid === null || !pids.includes(pgid)) throw new Fault(`of group ${pgid} are seen ${pids}`);
  same("health", (await daemon.health()).busy, true);
  await daemon.kill(id);
  await stream.rest();
};

const upload = async ({ daemon, dir }: Given): Promise<void> => {
  const [old, fresh] = [`${dir}/old`, `${dir}/parent/fresh`];
  Deno.writeFileSync(old, OLD);
  const wanted = new Map([[old, OLD], [fresh, undefined]] as [string, Uint8Array | undefined][]);
  try {
    for (const path of wanted.keys()) {
      await text(await putFile(daemon, path, NEW, { mode: "0640" }), 204);
      wanted.set(path, NEW);
    }
  } finally {
    for (const [path, content] of wanted) {
      if (content !== undefined) sameBytes(path, Deno.readFileSync(path), content);
    }
    const names = [...Deno.readDirSync(dir)].map(({ name }) => name).sort();
    same("the directory", names, wanted.get(fresh) === undefined ? ["old"] : ["old", "parent"]);
  }
};

const download = async ({ daemon, dir }: Given): Promise<void> => {
  const path = `${dir}/file`;
  Deno.writeFileSync(path, NEW);
  sameBytes("the file", await received(await getFile(daemon, path)), NEW);
  Deno.writeTextFileSync(path, "one\ntwo\nthree\n");
  const window = await received(await getFile(daemon, path, { start_line: "2", end_line: "2" }));
  same("the window", new TextDecoder().decode(window), "two\n");
};

const tarUp = async ({ daemon, dir }: Given): Promise<void> => {
  const root = `${dir}/root/deep`;
  await text(await putTar(daemon, root, TREE), 204);
  same("the tree", treeOf(root).map((line) => line.replace(/ [0-9a-f]{16}/, "")), [
    "a/",
    "a/file 5000",
    "a/large 1200000",
    "a/second 5000 = a/file",
    "b -> a/file",
  ]);
};

const tarDown = async ({ daemon, dir }: Given): Promise<void> => {
  Deno.mkdirSync(`${dir}/a`);
  Deno.writeFileSync(`${dir}/a/file`, pattern(5000));
  Deno.linkSync(`${dir}/a/file`, `${dir}/a/second`);
  Deno.writeFileSync(`${dir}/a/large`, pattern(1_200_000));
  Deno.symlinkSync("a/file", `${dir}/b`);
  const bytes = await received(await getTar(daemon, dir));
  const listed = listTar(bytes).map(({ name, type, link, content }) => [name, type, link, content.length]);
  same("the members", listed.slice(1).map(([name]) => name), ["a/", "a/file", "a/large", "a/second", "b"]);
};

const tunnel = async ({ daemon, guest }: Given): Promise<void> => {
  using client = await TunnelClient.open(daemon, `?port=${guest.port}`);
  await client.say("hello");
  const back = await within("the echo", client.bytes(5));
  same("the echo", new TextDecoder().decode(back), "hello");
};

export const PARTS = { hooks, command, stdin, kill, look, upload, download, tarUp, tarDown, tunnel, spool };
export type Part = keyof typeof PARTS;
