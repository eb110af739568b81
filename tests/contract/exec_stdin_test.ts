import { deepStrictEqual, doesNotMatch, match, strictEqual } from "node:assert/strict";
import { json, refused } from "../support/answers.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { sharedDaemon } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;

sharedDaemon.test("a write is answered with its size, and the child reads exactly its bytes", async ({ daemon }) => {
  const id = await daemon.exec(["od", "-An", "-tx1"], { stdin: "piped" });
  const bytes = Uint8Array.of(0, 10, 13, 255, 254, 128);
  deepStrictEqual(await daemon.stdin(id, bytes), { exec_id: id, written: 6, eof: false });
  deepStrictEqual(await daemon.stdin(id, "", true), { exec_id: id, written: 0, eof: true });
  strictEqual((await daemon.outcome(id)).stdout, " 00 0a 0d ff fe 80\n");
  const write = (): Promise<Response> => daemon.post(execPath(id, "stdin"), { data_b64: "YQ==" });
  await refused(await write(), 410, "stdin_closed");
  await daemon.guest.ack(id);
  await refused(await write(), 410, "stdin_closed");
});

sharedDaemon.test("a request with neither data nor signal writes nothing and closes nothing, one with both writes first", async ({ daemon }) => {
  const id = await daemon.exec(["cat"], { stdin: "piped" });
  const path = execPath(id, "stdin");
  const nothings = [{}, { data_b64: null }, { signal: null }, { data_b64: "" }, { more: [7] }];
  for (const body of nothings) {
    const answer = await json(await daemon.post(path, body));
    deepStrictEqual(answer, { exec_id: id, written: 0, eof: false });
  }
  deepStrictEqual(await daemon.stdin(id, "still", true), { exec_id: id, written: 5, eof: true });
  strictEqual((await daemon.outcome(id)).stdout, "still");
});

sharedDaemon.test("a malformed write is 400 and reaches nobody", async ({ daemon }) => {
  const id = await daemon.exec(["cat"], { stdin: "piped" });
  const noBase64 = [
    "YQ",
    "YQ=",
    "YQ===",
    "YR==",
    "Y",
    "_-8=",
    " YQ==",
    "YQ==\n",
    "Y Q=",
    "s3cret!!",
    "YQ==YQ==",
  ];
  const bad: readonly [body: unknown, names: RegExp][] = [
    [undefined, /body/],
    ["", /body/],
    ["{", /body/],
    ["[]", /body must be an object/],
    [Uint8Array.of(0x7b, 0xff, 0x7d), /body/],
    ["[".repeat(500_000), /body/],
    [{ data_b64: 7 }, /data_b64 must be a string/],
    [{ data_b64: ["YQ=="] }, /data_b64/],
    ...noBase64.map((data_b64): [unknown, RegExp] => [{ data_b64 }, /data_b64/]),
    [{ data_b64: "\ud800" }, /data_b64|body/],
    [{ signal: "EOF" }, /signal must be one of eof/],
    [{ signal: "s3cret" }, /signal/],
    [{ signal: "" }, /signal/],
    [{ signal: 15 }, /signal/],
    [{ signal: true }, /signal/],
    [{ data_b64: "YQ==", signal: "kill" }, /signal/],
  ];
  for (const [body, names] of bad) {
    const response = await daemon.post(execPath(id, "stdin"), body);
    const { detail } = await refused(response, 400, "malformed_request");
    match(detail, names);
    doesNotMatch(detail, /s3cret/);
  }
  await daemon.stdin(id, "good", true);
  strictEqual((await daemon.outcome(id)).stdout, "good");
});

sharedDaemon.test("the checks come in the order 400, 404, 409, 413, 410", async ({ daemon }) => {
  const without = await daemon.exec("true");
  const closed = await daemon.exec(["cat"], { stdin: "piped" });
  await daemon.stdin(closed, "", true);
  const big = { data_b64: new Uint8Array(MIB + 1).toBase64() };
  const post = (id: string, body: unknown): Promise<Response> =>
    daemon.post(execPath(id, "stdin"), body);
  await refused(await post("nobody", { signal: "x" }), 400, "malformed_request");
  await refused(await post("nobody", big), 404, "unknown_exec");
  await refused(await post(without, { signal: "x" }), 400, "malformed_request");
  await refused(await post(without, big), 409, "stdin_not_requested");
  await refused(await post(closed, { signal: "x" }), 400, "malformed_request");
  await refused(await post(closed, big), 413, "stdin_write_too_large");
  await refused(await post(closed, { data_b64: "YQ==" }), 410, "stdin_closed");
  await refused(await post(closed, {}), 410, "stdin_closed");
  await refused(await post(closed, { signal: "eof" }), 410, "stdin_closed");
});

Deno.test("a limit that was configured is the one in force, also above what a body of 2 MiB can hold", async () => {
  for (const limit of [10, 3 * MIB]) {
    const env = { GUESTD_MAX_STDIN_WRITE_BYTES: String(limit) };
    await using daemon = await Daemon.bootstrapped({ env });
    const id = await daemon.exec(["wc", "-c"], { stdin: "piped" });
    const more = { data_b64: new Uint8Array(limit + 1).toBase64() };
    await refused(await daemon.post(execPath(id, "stdin"), more), 413, "stdin_write_too_large");
    strictEqual((await daemon.stdin(id, new Uint8Array(limit), true)).written, limit);
    strictEqual((await daemon.outcome(id)).stdout.trim(), String(limit));
  }
});

sharedDaemon.test("a body above 2 MiB is 413 stdin_write_too_large unread, declared or not", async ({ daemon }) => {
  const path = execPath("nobody", "stdin");
  const body = new Uint8Array(2 * MIB + 1).fill(0x20);
  await refused(await daemon.post(path, body), 413, "stdin_write_too_large");
  const chunked = { method: "POST", body: new Blob([body]).stream() };
  await refused(await daemon.fetch(path, chunked), 413, "stdin_write_too_large");
});

sharedDaemon.test("a child that closed its stdin and lives on is 410 stdin_closed", async ({ daemon }) => {
  await using stream = await daemon.ready("exec 0</dev/null; echo ready; exec sleep infinity", {
    stdin: "piped",
  });
  for (let times = 0; times < 3; times++) {
    const write = await daemon.post(execPath(stream.id, "stdin"), { data_b64: "YQ==" });
    await refused(write, 410, "stdin_closed");
  }
  strictEqual((await daemon.guest.poll(stream.id)).phase, "running");
});

sharedDaemon.test("a child that closes its stdin while a write waits gets that write 410", async ({ daemon }) => {
  const script = "echo ready; read -r _ </dev/stdin; head -c 10 >/dev/null; exec 0</dev/null; " +
    "echo closed; exec sleep infinity";
  const id = await daemon.exec(script, { stdin: "piped" });
  const write = { data_b64: new Uint8Array(MIB).fill(10).toBase64() };
  await refused(await daemon.post(execPath(id, "stdin"), write), 410, "stdin_closed");
});

sharedDaemon.test("overlapping writes are never mixed", async ({ daemon }) => {
  const id = await daemon.exec(["cat"], { stdin: "piped" });
  const size = 300_000;
  const letters = [..."abcdefgh"];
  await Promise.all(letters.map((letter) => daemon.stdin(id, letter.repeat(size))));
  await daemon.stdin(id, "", true);
  const { stdout } = await daemon.outcome(id);
  const runs = stdout.match(/(.)\1*/g) ?? [];
  deepStrictEqual(runs.map((run) => run.length), Array(8).fill(size));
  deepStrictEqual(runs.map((run) => run[0]).toSorted(), letters);
});
