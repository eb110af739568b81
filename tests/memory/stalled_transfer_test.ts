/** Transfers that stand still, and starts that are too large: what they may cost others. */

import { match, ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon, execPath } from "../support/daemon.ts";
import { fileUrl } from "../support/files_client.ts";
import { Http2Client } from "../support/http2_client.ts";
import { Prober } from "../support/prober.ts";
import { forgetPeak, peakBytes } from "../support/proc.ts";
import { bodyText, sized } from "../support/raw_http.ts";
import { withDaemonAsRoot, withOptions } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;

withDaemonAsRoot.test("500 downloads that stand still take 140 MiB, given back beside requests for health", async ({ daemon, scratch }) => {
  const file = scratch.join("file");
  Deno.writeFileSync(file, new Uint8Array(4 * MIB));
  await daemon.log.until("a quiet start", ({ msg }) => msg === "memory was given back");
  const before = daemon.rss();
  forgetPeak(daemon.pid);
  using prober = new Prober(daemon);
  {
    using house = new DisposableStack();
    for (let n = 0; n < 50; n++) {
      const { session } = house.use(new Http2Client(daemon));
      for (let s = 0; s < 10; s++) {
        const stream = session.request({
          ":path": fileUrl("file", file),
          authorization: daemon.authorization[1],
        });
        // Nothing is read of it.
        stream.on("error", () => {});
      }
    }
    // The others wait for a thread.
    await eventually("as many as may be are under way", () => daemon.fdCount() >= 50 + 256);
  }
  const cost = (peakBytes(daemon.pid) - before) / MIB;
  ok(cost <= 140, `${cost.toFixed(1)} MiB`);
  await eventually("memory is given back", () => daemon.rss() < before + 48 * MIB);
  strictEqual((await prober.end()).failed, 0);
});

withOptions({ env: { GUESTD_IDLE_TIMEOUT_SECS: "1" } }).test(
  "a transfer that stands still is ended",
  async ({ daemon, scratch }) => {
    using upload = await daemon.connect();
    await upload.send(daemon.request("PUT", fileUrl("file", scratch.join("up")), [sized(1000)]));
    const answer = await upload.response("PUT");
    strictEqual(answer.status, 400);
    match(bodyText(answer), /^The body came too slowly: nothing within 1 s\.$/m);
    await upload.closedByPeer();
    const file = scratch.join("down");
    Deno.writeFileSync(file, new Uint8Array(32 * MIB));
    using download = await daemon.connect();
    await download.send(daemon.request("GET", fileUrl("file", file)));
    const line = await daemon.log.until("its end", ({ msg }) => msg === "a download was cut");
    strictEqual(line["reason"], "Cannot send the rest: the client took nothing for 1 s");
    // One that is read goes on for as long as it takes.
    using slow = await daemon.connect();
    await slow.send(daemon.request("GET", fileUrl("file", file)));
    const head = await slow.head();
    let bytes = 0;
    for await (const piece of slow.body(head)) bytes += piece.length;
    strictEqual(bytes, 32 * MIB);
  },
);

asRoot.test("starts with half a million variables or arguments are refused, and hold nobody up", async () => {
  await using daemon = await Daemon.bootstrapped();
  const command = ["true"];
  const env = Object.fromEntries(Array.from({ length: 499_990 }, (_, n) => [`V${n}`, "x"]));
  const bodies = [{ command, env }, { command: Array(499_990).fill("true") }]
    .map((fields) => JSON.stringify({ exec_id: "large", ...fields }));
  using prober = new Prober(daemon);
  for (let round = 0; round < 4; round++) {
    const answers = bodies.map(async (body) => {
      using connection = await daemon.connect();
      await connection.send(daemon.request("POST", "/v1/exec/start", [], body));
      const answer = await connection.response();
      strictEqual(answer.status, 500);
      match(bodyText(answer), /spawn_failed.*holds more than (8192 names|131072 values)/);
    });
    await Promise.all(answers);
  }
  const { failed, times } = await prober.end();
  strictEqual(failed, 0);
  ok((times.at(-1) ?? Infinity) < 400, `${times.at(-1)} ms`);
  strictEqual((await daemon.fetch(execPath("large"))).status, 404);
});
