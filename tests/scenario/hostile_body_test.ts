import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import type { Health } from "../../src/contract/system.ts";
import { asRoot } from "../support/as_root.ts";
import { concat, latin1 } from "../support/bytes.ts";
import { UNTIL_EOF } from "../support/child_scripts.ts";
import { Daemon, execPath, HOOK_PREFIX } from "../support/daemon.ts";
import { fileUrl } from "../support/files_client.ts";
import { Footprint } from "../support/footprint.ts";
import { forgetPeak, peakBytes } from "../support/proc.ts";
import {
  bodyText,
  CHUNKED,
  type Header,
  headerValues,
  type RawConnection,
  type RawResponse,
  request,
  sized,
} from "../support/raw_http.ts";
import { Scratch } from "../support/scratch.ts";
import { withDaemonAsRoot } from "../support/with_daemon.ts";

const START = "/v1/exec/start";
const RUN = `${HOOK_PREFIX}/run`;
const MIB = 1024 * 1024;

/** One request on a connection of its own. */
async function ask(
  daemon: Daemon,
  method: string,
  target: string,
  body: string | Uint8Array = "",
): Promise<RawResponse> {
  using connection = await daemon.connect(daemon.request(method, target, [], body));
  return await connection.response();
}

async function healthOf(daemon: Daemon): Promise<Health> {
  return JSON.parse(bodyText(await ask(daemon, "GET", "/v1/health")));
}

async function hooksOf(daemon: Daemon): Promise<string[]> {
  return (await healthOf(daemon)).hooks.map(({ hook }) => hook);
}

/** Sends the head alone and waits until a handler asks for the body. */
async function begun(
  daemon: Daemon,
  target: string,
  framing: Header = CHUNKED,
): Promise<RawConnection> {
  const connection = await daemon.connect(
    daemon.request("POST", target, [framing, ["Expect", "100-continue"]]),
  );
  match(new TextDecoder().decode(await connection.more()), /^HTTP\/1\.1 100 /);
  return connection;
}

const BAD_CHUNKS: Readonly<Record<string, string>> = {
  "no number": "zz\r\n",
  "a number with a sign": "-1\r\n",
  "a number beyond 64 bits": "fffffffffffffffff\r\n",
  "no size": "\r\n",
  "more than its size": "5\r\nhelloXX",
  "an extension of a MiB": `1;${"x".repeat(MIB)}\r\nx\r\n0\r\n\r\n`,
  "bad behind a good one": "5\r\nhello\r\nzz\r\n",
};

withDaemonAsRoot.test("a bad chunk that arrives with its head: no answer, and nothing has happened", async ({ daemon, t }) => {
  const id = await daemon.exec(UNTIL_EOF, { stdin: "piped" });
  const before = await Footprint.of(daemon);
  const kill = execPath(id, "kill");
  for (const target of [`${HOOK_PREFIX}/ready`, RUN, START, kill, execPath(id, "stdin")]) {
    await t.step(target.replace(id, "{id}"), async () => {
      for (const chunks of Object.values(BAD_CHUNKS)) {
        // What does not come with the head is another matter.
        if (chunks.length > 1000) continue;
        const head = daemon.request("POST", target, [CHUNKED]);
        using connection = await daemon.connect(concat([head, latin1(chunks)]));
        await connection.closedByPeer();
      }
    });
  }
  deepStrictEqual(await hooksOf(daemon), ["run"]);
  strictEqual((await daemon.guest.poll(id)).phase, "running");
  await before.back();
});

asRoot.test("a bad chunk that comes later: a hook is carried out, a body that was needed is lost", async (t) => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_REQUEST_TIMEOUT_SECS: "1" } });
  const id = await daemon.exec(UNTIL_EOF, { stdin: "piped" });
  const before = await Footprint.of(daemon);
  for (const [what, chunks] of Object.entries(BAD_CHUNKS)) {
    await t.step(what, async () => {
      // A hook that needs no body answers before there is one.
      using ready = await daemon.connect(request("POST", `${HOOK_PREFIX}/ready`, [CHUNKED]));
      strictEqual((await ready.response()).status, 200);
      await ready.send(chunks).catch(() => {});
      await ready.closedByPeer();
      for (const target of [RUN, START, execPath(id, "stdin")]) {
        using connection = await begun(daemon, target);
        await connection.send(chunks).catch(() => {});
        const answer = await connection.response();
        strictEqual(answer.status, 400, target);
        // What Deno reads on without an end, and gives nothing of, comes too slowly.
        match(bodyText(answer), /^The body (ended early|came too slowly|did not come)/);
        await connection.closedByPeer();
      }
    });
  }
  const count = Object.keys(BAD_CHUNKS).length;
  const hooks = Array.from({ length: count }, () => ["ready", "run"]).flat();
  deepStrictEqual(await hooksOf(daemon), ["run", ...hooks]);
  strictEqual((await daemon.guest.poll(id)).phase, "running");
  await before.back();
});

asRoot.test("an upload whose client says in mid-body that no more comes is 400, and leaves nothing", async () => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped();
  for (const kind of ["file", "tar"] as const) {
    for (const framing of [CHUNKED, sized(100000)] as const) {
      using connection = await daemon.connect();
      const target = fileUrl(kind, scratch.join(kind));
      await connection.send(
        daemon.request("PUT", target, [framing, ["Expect", "100-continue"]]),
      );
      // The handler asks for the body.
      await connection.more();
      await chunk(connection, 1000);
      await connection.finish();
      const answer = await connection.response("PUT");
      deepStrictEqual([answer.status, bodyText(answer)], [400, "The body ended early.\n"], kind);
    }
  }
  deepStrictEqual([...Deno.readDirSync(scratch.path)], []);
});

asRoot.test("a chunked body over the limit is refused as soon as it is, and leaves nothing", async (t) => {
  using scratch = new Scratch();
  await using daemon = await Daemon.bootstrapped({
    env: { GUESTD_MAX_BODY_BYTES: String(40 * MIB) },
  });
  const [file, tar] = [fileUrl("file", scratch.join("file")), fileUrl("tar", scratch.join("tree"))];
  const before = await Footprint.of(daemon);
  const cases: readonly [method: string, target: string, bytes: number, status: number][] = [
    ["POST", START, 40 * MIB, 413],
    ["PUT", file, 40 * MIB, 413],
    ["PUT", tar, 40 * MIB, 413],
    ["POST", execPath("x", "stdin"), 2 * MIB, 413],
    ["POST", RUN, 65_536, 400],
  ];
  for (const [method, target, bytes, status] of cases) {
    await t.step(`${method} ${target.replace(/\?.*/, "")}`, async () => {
      using connection = await daemon.connect(daemon.request(method, target, [CHUNKED]));
      const size = Math.min(MIB, bytes);
      for (let sent = 0; sent < bytes; sent += size) await chunk(connection, size);
      // Up to here it is within the limit; nothing says that more will not come.
      await chunk(connection, 1);
      const answer = await connection.response();
      strictEqual(answer.status, status);
      const said = headerValues(answer, "connection");
      ok(said.length > 0 && said.every((value) => value === "close"), said.join());
    });
  }
  deepStrictEqual([...Deno.readDirSync(scratch.path)], []);
  await before.back();
});

async function chunk(connection: RawConnection, size: number): Promise<void> {
  await connection.send(`${size.toString(16)}\r\n`);
  await connection.send(new Uint8Array(size));
  await connection.send("\r\n");
}

withDaemonAsRoot.test("a body of 100 MiB that nobody reads is swallowed in flat memory", async ({ daemon, t }) => {
  const before = await Footprint.of(daemon);
  const cases: readonly [target: string, headers: readonly Header[], status: number][] = [
    [START, [], 401],
    ["/nowhere", [daemon.authorization], 404],
    ["/v1/health", [], 405],
    [`${HOOK_PREFIX}/resume`, [], 200],
    [RUN, [], 400],
    [execPath("x", "kill"), [daemon.authorization], 404],
  ];
  const piece = new Uint8Array(4 * MIB);
  for (const [target, headers, status] of cases) {
    await t.step(`POST ${target}: ${status}`, async () => {
      forgetPeak(daemon.pid);
      using connection = await daemon.connect();
      const length = sized(100 * MIB);
      await connection.send(request("POST", target, [...headers, length]));
      // The answer does not wait for any of it.
      strictEqual((await connection.response()).status, status);
      for (let sent = 0; sent < 25; sent++) await connection.send(piece);
      await connection.closedByPeer();
      const grown = (peakBytes(daemon.pid) - before.bytes) / MIB;
      ok(grown < 16, `${grown} MiB more at its worst`);
    });
  }
  await before.back();
});

withDaemonAsRoot.test("JSON that is deep or wide is refused promptly, and its memory given back", async ({ daemon, t }) => {
  const id = await daemon.exec(UNTIL_EOF, { stdin: "piped" });
  const before = await Footprint.of(daemon);
  const deep = (levels: number): string => `${"[".repeat(levels)}${"]".repeat(levels)}`;
  const stdin = execPath(id, "stdin");
  const hook = (payload: string): string => JSON.stringify({ runHookPayload: payload });
  const start = (field: string): string => `{"exec_id":"x","command":["true"],${field}}`;
  const bodies: Readonly<Record<string, readonly [target: string, body: string, status: number]>> =
    {
      "10,000 deep": [START, deep(10_000), 400],
      "10,000 deep in a stdin write": [stdin, `{"data_b64":${deep(10_000)}}`, 400],
      "10,000 deep in the run hook": [RUN, `{"runHookPayload":${deep(10_000)}}`, 400],
      "10,000 deep in the payload": [RUN, hook(deep(10_000)), 400],
      "10,000 objects deep in an ignored field": [
        START,
        start(`"x":${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`),
        200,
      ],
      "4 Mi brackets": [START, "[".repeat(4 * MIB), 400],
      "1 Mi objects": [START, '{"a":'.repeat(MIB), 400],
      "4 Mi numbers": [START, `[${"0,".repeat(4 * MIB)}0]`, 500],
      "3 Mi lists in an ignored field": [START, start(`"x":[${"[],".repeat(3 * MIB)}[]]`), 500],
    };
  for (const [what, [target, body, status]] of Object.entries(bodies)) {
    await t.step(what, async () => {
      const started = performance.now();
      strictEqual((await ask(daemon, "POST", target, body)).status, status);
      ok(performance.now() - started < 5000);
      await before.back();
    });
  }
  strictEqual((await healthOf(daemon)).execs, 3);
  strictEqual((await daemon.guest.poll(id)).phase, "running");
});

withDaemonAsRoot.test("argument lists of 15 MiB are refused as the kernel refuses them, and given back", async ({ daemon, t }) => {
  const before = await Footprint.of(daemon);
  const start = (fields: object): string => JSON.stringify({ exec_id: "long", ...fields });
  const name = (
    _: unknown,
    index: number,
  ): readonly [string, string] => [`N${index}`, "v".repeat(9)];
  const bodies: Readonly<Record<string, string>> = {
    "one argument": start({ command: ["true", "x".repeat(15 * MIB)] }),
    "900,000 arguments": start({ command: ["true", ...Array(900_000).fill("x".repeat(13))] }),
    "a script": start({ command: [`: ${"x".repeat(15 * MIB)}`], shell: true }),
    "400,000 variables": start({
      command: ["true"],
      env: Object.fromEntries(Array.from({ length: 400_000 }, name)),
    }),
    "a directory": start({ command: ["true"], cwd: "/x".repeat(7 * MIB) }),
  };
  for (const [what, body] of Object.entries(bodies)) {
    await t.step(what, async () => {
      const answer = await ask(daemon, "POST", START, body);
      strictEqual(answer.status, 500);
      const { error, detail } = JSON.parse(bodyText(answer));
      strictEqual(error, "spawn_failed");
      match(detail, /E2BIG|ENAMETOOLONG|more than 8192 names|more than 131072 values/);
      await before.back();
    });
  }
  strictEqual((await healthOf(daemon)).execs, 1);
});
