import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { refused } from "../support/answers.ts";
import { BLOCK, ECHO_LINES } from "../support/child_scripts.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { bodyText, header, RawConnection } from "../support/raw_http.ts";
import { sharedDaemon } from "../support/with_daemon.ts";

sharedDaemon.test("a stream replays from its offset, then follows, and ends with exit", async ({ daemon }) => {
  await using early = await daemon.ready(ECHO_LINES, { stdin: "piped" });
  await using late = await daemon.stream(early.id, 3);
  strictEqual(await late.untilOutput("dy\n"), "dy\n");
  await daemon.stdin(early.id, "more\n");
  strictEqual(await early.untilOutput("more\n"), "more\n");
  strictEqual(await late.untilOutput("more\n"), "more\n");
  await daemon.stdin(early.id, "", true);
  for (const stream of [early, late]) {
    const { exit, events } = await stream.rest();
    deepStrictEqual(exit, {
      event: "exit",
      exit_code: 0,
      signal: null,
      truncated: false,
      writers_may_be_alive: false,
      offset: 11n,
    });
    strictEqual(events.length, 1);
  }
});

sharedDaemon.test("the answer's headers are those of an event stream that nobody may buffer", async ({ daemon }) => {
  const id = await daemon.exec(BLOCK);
  const response = await daemon.fetch(execPath(id, "stream"));
  const headers = ["content-type", "cache-control", "x-accel-buffering", "content-encoding"];
  deepStrictEqual(headers.map((name) => response.headers.get(name)), [
    "text/event-stream",
    "no-cache",
    "no",
    null,
  ]);
  await response.body?.cancel();
});

sharedDaemon.test("stdout and stderr share one offset space, in the order of the writes", async ({ daemon }) => {
  const script = "while read -r line; do echo o$line; read -r line; echo e$line >&2; done";
  const id = await daemon.exec(script, { stdin: "piped" });
  await using stream = await daemon.stream(id);
  for (let line = 0; line < 10; line += 2) {
    await daemon.stdin(id, `${line}\n`);
    await stream.untilOutput(`o${line}\n`, "stdout");
    await daemon.stdin(id, `${line + 1}\n`);
    await stream.untilOutput(`e${line + 1}\n`, "stderr");
  }
  await daemon.stdin(id, "", true);
  const whole = await daemon.follow(id);
  strictEqual(whole.contiguous(), 30n);
  strictEqual(whole.text(), "o0\ne1\no2\ne3\no4\ne5\no6\ne7\no8\ne9\n");
  strictEqual(whole.text("stderr"), "e1\ne3\ne5\ne7\ne9\n");
});

sharedDaemon.test("an offset beyond the total of a finished exec gets its exit at once", async ({ daemon }) => {
  const id = await daemon.exec("echo abc");
  await daemon.follow(id);
  for (const offset of [5n, 2n ** 53n + 1n, 2n ** 64n - 1n]) {
    await using stream = await daemon.stream(id, offset);
    const { events, exit } = await stream.rest();
    deepStrictEqual([events.length, exit.offset], [1, 4n]);
  }
});

sharedDaemon.test("an offset beyond the total of a running exec waits for that byte", async ({ daemon }) => {
  await using witness = await daemon.ready(ECHO_LINES, { stdin: "piped" });
  await using ahead = await daemon.stream(witness.id, 9);
  await daemon.stdin(witness.id, "12\n34\n");
  await witness.untilOutput("34\n");
  strictEqual(await ahead.untilOutput("\n"), "34\n");
  await daemon.stdin(witness.id, "", true);
  strictEqual((await ahead.rest()).exit.offset, 12n);
});

sharedDaemon.test("offset is a decimal uint64; anything else is 400 malformed_request", async ({ daemon }) => {
  const id = await daemon.exec("echo abc");
  await daemon.follow(id);
  const path = execPath(id, "stream");
  const bad = ["", "-1", "+1", "%2B1", "1.0", "1e3", "0x1", "x", "1x", "%20", "1%00", "null", "١"];
  bad.push("1+", "1_000", "%31%", "%FF", "&offset=1", "18446744073709551616", "9".repeat(60_000));
  for (const query of ["?offset", ...bad.map((offset) => `?offset=${offset}`)]) {
    const response = await daemon.fetch(path + query);
    const { detail } = await refused(response, 400, "malformed_request");
    ok(detail.includes("offset"), detail);
  }
  const nobody = `${execPath("nobody", "stream")}?offset=x`;
  await refused(await daemon.fetch(nobody), 400, "malformed_request");
  const good = ["?offset=2", "?offset=002", "?offset=2&offset=x", "?x=y&offset=2", "?%6fffset=%32"];
  for (const query of [...good, `?offset=${"0".repeat(60_000)}2`]) {
    const wire = await (await daemon.fetch(path + query)).text();
    ok(wire.includes('"offset":2,'), query);
  }
  for (const query of ["", "?", "?x", "?&&", "?Offset=x"]) {
    const wire = await (await daemon.fetch(path + query)).text();
    ok(wire.includes('"offset":0,'), query);
  }
});

Deno.test("the exit tells of a signal, of output cut for the poll and of writers left behind", async () => {
  await using daemon = await Daemon.bootstrapped({
    env: { GUESTD_MAX_OUTPUT_BYTES: "3", GUESTD_OUTPUT_LINGER_SECS: "0.05" },
  });
  const signalled = (await daemon.follow(await daemon.exec("kill -9 $$"))).exit;
  deepStrictEqual([signalled.exit_code, signalled.signal], [null, 9]);
  const cut = await daemon.follow(await daemon.exec("echo abc"));
  deepStrictEqual([cut.exit.truncated, cut.exit.offset, cut.text()], [true, 4n, "abc\n"]);
  const left = (await daemon.follow(await daemon.exec("sleep infinity & exit 4"))).exit;
  deepStrictEqual([left.exit_code, left.writers_may_be_alive], [4, true]);
});

sharedDaemon.test("frames are sent without delay: a byte is seen while the command waits for an answer", async ({ daemon }) => {
  const id = await daemon.exec("while read -r _; do printf .; done", { stdin: "piped" });
  await using stream = await daemon.stream(id);
  const before = performance.now();
  for (let times = 0; times < 50; times++) {
    await daemon.stdin(id, "\n");
    await stream.untilOutput(".");
  }
  ok(performance.now() - before < 4000, `${performance.now() - before} ms for 50 round trips`);
});

sharedDaemon.test("a stream is a chunked answer that another request may follow on its connection", async ({ daemon }) => {
  const id = await daemon.exec("echo abc; read line", { stdin: "piped" });
  using connection: RawConnection = await daemon.connect();
  await connection.send(daemon.request("GET", execPath(id, "stream")));
  const head = await connection.head();
  strictEqual(header(head, "transfer-encoding"), "chunked");
  // Only now, for the command must not end before its stream has begun.
  await daemon.stdin(id, "\n");
  let streamed = "";
  for await (const chunk of connection.body(head, "GET")) {
    streamed += new TextDecoder().decode(chunk);
  }
  ok(streamed.endsWith("\n\n"));
  strictEqual((await connection.ask("GET", "/v1/health")).status, 200);

  // Of a command that has ended the very same frames, in one piece whose length is known.
  await connection.send(daemon.request("GET", execPath(id, "stream")));
  const whole = await connection.response();
  strictEqual(header(whole, "transfer-encoding"), undefined);
  strictEqual(header(whole, "content-length"), String(streamed.length));
  strictEqual(bodyText(whole), streamed);
  strictEqual((await connection.ask("GET", "/v1/health")).status, 200);
});

sharedDaemon.test("a command that is quiet at first does not keep its stream's answer back", async ({ daemon }) => {
  const times: number[] = [];
  for (let n = 0; n < 11; n++) {
    const id = await daemon.exec("read line", { stdin: "piped" });
    const before = performance.now();
    const response = await daemon.fetch(execPath(id, "stream"));
    times.push(performance.now() - before);
    await response.body?.cancel();
  }
  const [, , , , , median = Infinity] = times.sort((a, b) => a - b);
  ok(median < 100, `${times}`);
});
