/** What unfinished hooks of clients without a token may cost. */

import { ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { Daemon, HOOK_PREFIX } from "../support/daemon.ts";
import { Http2Client } from "../support/http2_client.ts";
import { MemoryCgroup } from "../support/memory_cgroup.ts";
import { forgetPeak, peakBytes } from "../support/proc.ts";
import { Prober } from "../support/prober.ts";
import { CHUNKED, request, sized } from "../support/raw_http.ts";
import { Strangers } from "../support/strangers.ts";

const MIB = 1024 * 1024;
const RUN = `${HOOK_PREFIX}/run`;

/**
 * What an attack by unfinished hooks may cost, in MiB, also on a busy machine: docs/status.md has what they do cost. A bare
 * `Deno.serve` that answers each at once takes 70, 93, 16 and 75: it reads what has come of a body together with its head.
 */
const ATTACKS: Readonly<
  Record<
    string,
    readonly [mib: number, come: (daemon: Daemon, house: DisposableStack) => Promise<void>]
  >
> = {
  "3,000 chunked ones": [128, (daemon, house) => {
    return house.use(new Strangers()).come(
      daemon,
      3000,
      request("POST", RUN, [CHUNKED], "1\r\nx\r\n"),
    );
  }],
  "4,000 nearly complete ones": [160, (daemon, house) => {
    const body = new Uint8Array(64_000);
    return house.use(new Strangers()).come(
      daemon,
      4000,
      request("POST", RUN, [sized(65_536)], body),
    );
  }],
  "40 × 100 of HTTP/2": [64, (daemon, house) => overHttp2(daemon, house, 40, 100, 1)],
  "500 × 60 of HTTP/2": [128, (daemon, house) => overHttp2(daemon, house, 500, 60, 1000)],
};

async function overHttp2(
  daemon: Daemon,
  house: DisposableStack,
  connections: number,
  streams: number,
  bytes: number,
): Promise<void> {
  for (let n = 0; n < connections; n++) {
    const { session } = house.use(new Http2Client(daemon));
    session.on("error", () => {});
    for (let s = 0; s < streams; s++) {
      const stream = session.request({ ":method": "POST", ":path": RUN });
      stream.on("error", () => {});
      stream.write(new Uint8Array(bytes));
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}

asRoot.test("unfinished hooks cost little memory, which comes back, and the platform's own is answered", async (t) => {
  for (const [what, [mib, come]] of Object.entries(ATTACKS)) {
    await t.step(what, async () => {
      // Where it can be had, memory ends with what a small guest has, and so would the daemon.
      using cgroup = MemoryCgroup.make(256 * MIB);
      await using daemon = await Daemon.bootstrapped({ through: cgroup?.through ?? [] });
      await daemon.log.until("a quiet start", ({ msg }) => msg === "memory was given back");
      const before = daemon.rss();
      forgetPeak(daemon.pid);
      using house = new DisposableStack();
      using prober = new Prober(daemon);
      await come(daemon, house);
      await daemon.bootstrap(daemon.token);
      strictEqual((await prober.end()).failed, 0);
      const cost = (peakBytes(daemon.pid) - before) / MIB;
      ok(cost <= mib, `${cost.toFixed(1)} MiB`);
      house.dispose();
      await eventually("memory is given back", () => daemon.rss() < before + 48 * MIB);
    });
  }
});
