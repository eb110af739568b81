import { deepStrictEqual, strictEqual } from "node:assert/strict";
import type { KillResponse } from "../../src/contract/exec.ts";
import { json, refused } from "../support/answers.ts";
import { execPath } from "../support/daemon.ts";
import { bodyText } from "../support/raw_http.ts";
import { sharedDaemon, withDaemon } from "../support/with_daemon.ts";

/** Ids that are valid although they look like something else. */
const IDS: readonly string[] = [
  "start",
  "__proto__",
  "constructor",
  "hasOwnProperty",
  "toString",
  "...",
  "a/b",
  "/",
  "//",
  "a/stream",
  "%",
  "%25",
  "%41",
  "%2F",
  "a%00b",
  "?",
  "#",
  "a?offset=1#x",
  "a b",
  "+",
  " ",
  "\0",
  "\0\x01\x02\x1f\x7f",
  "\r\n",
  "\t",
  "\\",
  '"',
  "'",
  "null",
  "A",
  "a",
  "0",
  "-0",
  "ünïcödé",
  "日本語",
  "🔑👩‍👩‍👧‍👦",
  "\u202e\u200b\ufeff",
  "e\u0301",
  "é",
  "x".repeat(1024),
  "ä".repeat(512),
  "🔑".repeat(256),
  "%".repeat(1024),
];

withDaemon.test("every id works on every route and stays itself", async ({ daemon }) => {
  for (const id of IDS) {
    const start = { exec_id: id, command: ["cat"], stdin: true };
    const started = await json(await daemon.post("/v1/exec/start", start));
    deepStrictEqual(started, { exec_id: id, phase: "running" });
  }
  deepStrictEqual((await daemon.guest.procs()).map(({ exec_id }) => exec_id), IDS);
  for (const [index, id] of IDS.entries()) {
    strictEqual((await daemon.stdin(id, `${index}`, true)).exec_id, id);
    await using stream = await daemon.stream(id);
    strictEqual((await stream.rest()).text(), `${index}`);
    const { exec_id, stdout } = await daemon.guest.poll(id);
    deepStrictEqual([exec_id, stdout], [id, `${index}`]);
    const { exec_id: killed } = await json<KillResponse>(await daemon.post(execPath(id, "kill")));
    strictEqual(killed, id);
    const acked = await daemon.guest.ack(id);
    deepStrictEqual([acked.exec_id, acked.stdout], [id, `${index}`]);
  }
  strictEqual((await daemon.guest.health()).execs, IDS.length);
});

sharedDaemon.test("ids that no exec has are unknown, however much they resemble a property of an object", async ({ daemon }) => {
  for (const id of IDS) {
    await refused(await daemon.fetch(execPath(id)), 404, "unknown_exec");
  }
});

sharedDaemon.test("an id is decoded once: %2541 is the id %41 and no other", async ({ daemon }) => {
  await daemon.exec("true", { id: "%41" });
  const { exec_id } = await json<{ exec_id: string }>(await daemon.fetch("/v1/exec/%2541"));
  strictEqual(exec_id, "%41");
  await refused(await daemon.fetch("/v1/exec/%41"), 404, "unknown_exec");
  await refused(await daemon.fetch("/v1/exec/A"), 404, "unknown_exec");
});

sharedDaemon.test("the ids . and .. are addressed as they are, for no dot segment is folded", async ({ daemon }) => {
  for (const id of [".", ".."]) {
    await daemon.exec("true", { id: id });
    for (const path of [`/v1/exec/${id}`, `/v1/exec/${id.replaceAll(".", "%2e")}`]) {
      using connection = await daemon.connect();
      const answer = await connection.ask("GET", path, [daemon.authorization]);
      deepStrictEqual([answer.status, JSON.parse(bodyText(answer)).exec_id], [200, id]);
    }
  }
});
