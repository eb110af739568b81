import { deepStrictEqual, doesNotMatch, match, strictEqual } from "node:assert/strict";
import type { StartResponse } from "../../src/contract/exec.ts";
import { json, plain, refused } from "../support/answers.ts";
import { Daemon } from "../support/daemon.ts";
import { latin1 } from "../support/bytes.ts";
import { sized } from "../support/raw_http.ts";
import { sharedDaemon, withDaemon } from "../support/with_daemon.ts";

const START = "/v1/exec/start";
const MIB = 1024 * 1024;
const SECRET = "s3cret";

/** What is refused as it stands, and the field that the detail has to name. */
const REFUSED: readonly [what: string, body: unknown, names: RegExp][] = [
  ["no body", undefined, /body/],
  ["no JSON", `{"exec_id": "${SECRET}`, /body/],
  ["two documents", `{"exec_id":"a","command":["true"]}{}`, /body/],
  ["a list", [SECRET], /body must be an object/],
  ["null", "null", /body must be an object/],
  ["a string", `"${SECRET}"`, /body must be an object/],
  ["no exec_id", { command: ["true"] }, /exec_id is missing/],
  ["all of it in a prototype", `{"__proto__":{"exec_id":"a","command":["true"]}}`, /exec_id is/],
  ["a null exec_id", { exec_id: null, command: ["true"] }, /exec_id must be/],
  ["a number as exec_id", { exec_id: 7, command: ["true"] }, /exec_id must be/],
  ["an empty exec_id", { exec_id: "", command: ["true"] }, /exec_id must be a non-empty/],
  ["an exec_id of 1025 bytes", { exec_id: "x".repeat(1025), command: ["true"] }, /exec_id .*1024/],
  [
    "an exec_id above 1024 bytes in fewer characters",
    { exec_id: "ä".repeat(513), command: ["true"] },
    /exec_id .*1024/,
  ],
  ["a lone surrogate in exec_id", `{"exec_id":"\\ud800","command":["true"]}`, /exec_id/],
  ["no command", { exec_id: "a" }, /command is missing/],
  ["a null command", { exec_id: "a", command: null }, /command must be an array/],
  ["a string as command", { exec_id: "a", command: SECRET }, /command must be an array/],
  ["an empty command without shell", { exec_id: "a", command: [] }, /command must not be empty/],
  ["a number in command", { exec_id: "a", command: ["echo", 7] }, /command\[1\] must be a string/],
  ["null in command", { exec_id: "a", command: [null] }, /command\[0\] must be a string/],
  ["a NUL in command", { exec_id: "a", command: [`${SECRET}\0`] }, /command\[0\]/],
  ["a lone surrogate in command", `{"exec_id":"a","command":["\\udfff"]}`, /command\[0\]/],
  ["two scripts", { exec_id: "a", command: ["a", "b"], shell: true }, /command .* shell/],
  ["a null shell", { exec_id: "a", command: ["a"], shell: null }, /shell must be a boolean/],
  ["1 as shell", { exec_id: "a", command: ["a"], shell: 1 }, /shell must be a boolean/],
  ["a list as cwd", { exec_id: "a", command: ["a"], cwd: [] }, /cwd must be a string/],
  ["a NUL in cwd", { exec_id: "a", command: ["a"], cwd: "/\0" }, /cwd/],
  ["a lone surrogate in cwd", `{"exec_id":"a","command":["a"],"cwd":"\\ud800"}`, /cwd/],
  ["a null env", { exec_id: "a", command: ["a"], env: null }, /env must be an object/],
  ["a list as env", { exec_id: "a", command: ["a"], env: [] }, /env must be an object/],
  ["null in env", { exec_id: "a", command: ["a"], env: { A: null } }, /value in env/],
  ["a number in env", { exec_id: "a", command: ["a"], env: { A: 1 } }, /value in env/],
  ["a NUL in env", { exec_id: "a", command: ["a"], env: { A: `${SECRET}\0` } }, /value in env/],
  ["a lone surrogate in a name", `{"exec_id":"a","command":["a"],"env":{"\\udc00":""}}`, /in env/],
  ["a lone surrogate in env", `{"exec_id":"a","command":["a"],"env":{"A":"\\ud800"}}`, /in env/],
  ["an empty name in env", { exec_id: "a", command: ["a"], env: { "": "x" } }, /name in env/],
  ["= in a name of env", { exec_id: "a", command: ["a"], env: { [`${SECRET}=`]: "" } }, /name in/],
  ["a NUL in a name of env", { exec_id: "a", command: ["a"], env: { "A\0": "x" } }, /name in env/],
  ["a string as user", { exec_id: "a", command: ["a"], user: "0" }, /user must be an integer/],
  ["-1 as user", { exec_id: "a", command: ["a"], user: -1 }, /user must be an integer/],
  ["half a user", { exec_id: "a", command: ["a"], user: 0.5 }, /user must be an integer/],
  ["5,000 digits as user", `{"exec_id":"a","command":["a"],"user":${"9".repeat(5000)}}`, /user/],
  ["2^32 as group", { exec_id: "a", command: ["a"], group: 2 ** 32 }, /group must be an integer/],
  ["2^32 as user", { exec_id: "a", command: ["a"], user: 2 ** 32 }, /user must be an integer/],
  ["1e400 as group", `{"exec_id":"a","command":["a"],"group":1e400}`, /group must be an integer/],
  ["true as group", { exec_id: "a", command: ["a"], group: true }, /group must be an integer/],
  ["0 as timeout_sec", { exec_id: "a", command: ["a"], timeout_sec: 0 }, /timeout_sec/],
  ["-0 as timeout_sec", `{"exec_id":"a","command":["a"],"timeout_sec":-0.0}`, /timeout_sec/],
  ["-1 as timeout_sec", { exec_id: "a", command: ["a"], timeout_sec: -1 }, /timeout_sec/],
  ["1e309 as timeout_sec", `{"exec_id":"a","command":["a"],"timeout_sec":1e309}`, /timeout_sec/],
  ["a string as timeout_sec", { exec_id: "a", command: ["a"], timeout_sec: "1" }, /timeout_sec/],
  ["NaN", `{"exec_id":"a","command":["a"],"timeout_sec":NaN}`, /body/],
  ["a null stdin", { exec_id: "a", command: ["a"], stdin: null }, /stdin must be a boolean/],
  ["a string as reap", { exec_id: "a", command: ["a"], reap_group_on_exit: "" }, /reap_group/],
  ["a null reap", { exec_id: "a", command: ["a"], reap_group_on_exit: null }, /reap_group_on_exit/],
  ["bytes that are not UTF-8", Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d), /body .*UTF-8/],
  ["overlong UTF-8", latin1(`{"exec_id":"a","command":["\xc0\x80"]}`), /body .*UTF-8/],
  ["a surrogate as UTF-8", latin1(`{"exec_id":"a","command":["\xed\xa0\x80"]}`), /body .*UTF-8/],
  ["a UTF-16 body", Uint8Array.of(0xff, 0xfe, 0x7b, 0), /body/],
  ["deep JSON", `{"exec_id":"a","command":["a"],"x":${"[".repeat(500_000)}`, /body/],
];

withDaemon.test("a bad start is 400 malformed_request with a detail that names the field, quoting nothing", async ({ daemon }) => {
  for (const [what, body, names] of REFUSED) {
    const { detail } = await refused(await daemon.post(START, body), 400, "malformed_request");
    match(detail, names, what);
    doesNotMatch(detail, /s3cret/, what);
  }
  deepStrictEqual(await daemon.guest.procs(), []);
  await daemon.logWritten();
  doesNotMatch(daemon.log.toString(), /s3cret/);
});

/** Requests that are valid however they look. */
const ACCEPTED: readonly [what: string, body: unknown][] = [
  ["the least there is", { exec_id: "a", command: ["true"] }],
  [
    "every field at its default",
    {
      exec_id: "a",
      command: ["true"],
      shell: false,
      cwd: null,
      env: {},
      user: null,
      group: null,
      timeout_sec: null,
      stdin: false,
      reap_group_on_exit: false,
    },
  ],
  ["unknown fields", { exec_id: "a", command: ["true"], more: [1], __proto__x: null }],
  ["__proto__ as a field", `{"exec_id":"a","command":["true"],"__proto__":{"shell":7}}`],
  ["a field twice, of which the last counts", `{"exec_id":1,"exec_id":"a","command":["true"]}`],
  ["a byte order mark before it", `\ufeff{"exec_id":"a","command":["true"]}`],
  ["a pair of surrogates, escaped", `{"exec_id":"a","command":["true","\\ud83d\\udd11"]}`],
  ["white space around it", ` \n\t{"exec_id":"a","command":["true"]}\r\n`],
  [
    "an integer as a float",
    // Only root may be asked to be root.
    `{"exec_id":"a","command":["true"]${Deno.uid() === 0 ? `,"user":0.0,"group":0e5` : ""}}`,
  ],
  [
    "the largest timeout",
    `{"exec_id":"a","command":["true"],"timeout_sec":1.7976931348623157e308}`,
  ],
  ["the smallest timeout", `{"exec_id":"a","command":["sleep","100"],"timeout_sec":5e-324}`],
  [
    "deep JSON in an unknown field",
    `{"exec_id":"a","command":["true"],"x":${"[".repeat(400)}${"]".repeat(400)}}`,
  ],
  ["an exec_id of 1024 bytes", { exec_id: "ä".repeat(512), command: ["true"] }],
  ["an empty script", { exec_id: "a", command: [], shell: true }],
];

Deno.test("a valid start is 200 with the id and a phase", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_KILL_GRACE_SECS: "0" } });
  for (const [index, [what, body]] of ACCEPTED.entries()) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const own = text.replace(`"exec_id":"a"`, `"exec_id":"a${index}"`);
    const { exec_id, phase } = await json<StartResponse>(await daemon.post(START, own));
    match(phase, /^(running|exited)$/, what);
    strictEqual((await daemon.follow(exec_id)).exit.offset, 0n);
  }
});

sharedDaemon.test("Content-Type is not asked for", async ({ daemon }) => {
  const body = JSON.stringify({ exec_id: "typed", command: ["true"] });
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "", "nonsense"]) {
    const init = { headers: { "content-type": type } };
    strictEqual((await daemon.post(START, body, init)).status, 200);
  }
});

sharedDaemon.test("without shell no shell sees the command, with shell its one string is a script for /bin/sh, none the empty script", async ({ daemon }) => {
  const id = await daemon.exec(["printf", "%s|", "$HOME", "a b", "", "*", "\n", "ünï"]);
  strictEqual((await daemon.outcome(id)).stdout, "$HOME|a b||*|\n|ünï|");
  const script = await daemon.exec('for i in 1 2; do echo "$0 $i"; done; exit 5');
  const { stdout, exit_code } = await daemon.outcome(script);
  deepStrictEqual([stdout, exit_code], ["/bin/sh 1\n/bin/sh 2\n", 5]);
  strictEqual(
    (await daemon.post(START, { exec_id: "empty", command: [], shell: true })).status,
    200,
  );
  const outcome = await daemon.outcome("empty");
  deepStrictEqual([outcome.exit_code, outcome.stdout, outcome.stderr], [0, "", ""]);
});

Deno.test("cwd is where the command runs, by default where the daemon does", async () => {
  await using daemon = await Daemon.bootstrapped({ cwd: "/usr" });
  strictEqual((await daemon.outcome(await daemon.exec(["pwd"], { cwd: "/etc" }))).stdout, "/etc\n");
  strictEqual((await daemon.outcome(await daemon.exec(["pwd"]))).stdout, "/usr\n");
  strictEqual(
    (await daemon.outcome(await daemon.exec(["pwd"], { cwd: "bin/.." }))).stdout,
    "/usr\n",
  );
});

sharedDaemon.test("stdin is the null device unless it is asked for", async ({ daemon }) => {
  const id = await daemon.exec("readlink /proc/self/fd/0; cat; echo end");
  strictEqual((await daemon.outcome(id)).stdout, "/dev/null\nend\n");
  const fed = await daemon.exec("readlink /proc/self/fd/0 | cut -c1-5; cat", { stdin: "piped" });
  await daemon.stdin(fed, "fed", true);
  strictEqual((await daemon.outcome(fed)).stdout, "pipe:\nfed");
});

Deno.test("a body above max_body_bytes is 413 in plain text, declared or not", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_MAX_BODY_BYTES: "1000" } });
  const body = JSON.stringify({ exec_id: "a", command: ["true"], pad: "x".repeat(1000) });
  await plain(await daemon.post(START, body), 413);
  const chunked = new Blob([body]).stream();
  await plain(await daemon.fetch(START, { method: "POST", body: chunked }), 413);
  const fits = JSON.stringify({ exec_id: "a", command: ["true"] }).padEnd(1000);
  strictEqual((await daemon.post(START, fits)).status, 200);
  strictEqual((await daemon.guest.health()).execs, 1);
});

sharedDaemon.test("a client that waits for 100 Continue gets it, and its body is read", async ({ daemon }) => {
  using connection = await daemon.connect();
  const body = JSON.stringify({ exec_id: "expected", command: ["true"] });
  await connection.send(
    daemon.request("POST", START, [sized(body.length), ["Expect", "100-continue"]]),
  );
  strictEqual(new TextDecoder().decode(await connection.more()), "HTTP/1.1 100 Continue\r\n\r\n");
  await connection.send(body);
  strictEqual((await connection.response()).status, 200);
});

withDaemon.test("a body above 16 MiB is no argument list that a kernel takes: spawn_failed, in flat memory", async ({ daemon }) => {
  const before = daemon.rss();
  const piece = new Uint8Array(MIB).fill(0x20);
  const body = ReadableStream.from(Array(256).fill(piece));
  const response = await daemon.fetch(START, { method: "POST", body });
  await refused(response, 500, "spawn_failed");
  const grown = (daemon.rss() - before) / MIB;
  strictEqual(grown < 128, true, `${grown} MiB more`);
  strictEqual((await daemon.guest.health()).execs, 0);
});
