/** What clients without a token may take of a daemon: connections, descriptors, and the time of others. */

import { ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually } from "../support/await_event.ts";
import { latin1 } from "../support/bytes.ts";
import { Daemon, type DaemonOptions, HOOK_PREFIX } from "../support/daemon.ts";
import { Http2Client } from "../support/http2_client.ts";
import { Prober } from "../support/prober.ts";
import { request, sized } from "../support/raw_http.ts";
import { Strangers } from "../support/strangers.ts";

const RUN = `${HOOK_PREFIX}/run`;
/** What a daemon takes beside its strangers: the listener, its threads' and the test's own connections. */
const OWN = 64;
/** An unfinished head, which cannot be told from one that comes slowly. */
const HEAD = latin1("GET /v1/health HTTP/1.1\r\nHost: guest\r\nX-Long: ");

Deno.test("strangers who never finish a head or a hook have their time, and then go", async () => {
  await using daemon = await Daemon.bootstrapped({ env: { GUESTD_REQUEST_TIMEOUT_SECS: "1" } });
  const before = daemon.fdCount();
  using strangers = new Strangers();
  using prober = new Prober(daemon);
  await strangers.come(daemon, 300, HEAD);
  await strangers.come(
    daemon,
    100,
    latin1(`${new TextDecoder().decode(HEAD)}${"y".repeat(60_000)}`),
  );
  await strangers.come(daemon, 100, request("POST", RUN, [sized(100)], "x"));
  // The first may be gone before the last have come.
  strictEqual(await strangers.ended(), 500);
  await eventually("they are gone", () => daemon.fdCount() <= before + 4);
  strictEqual((await prober.end()).failed, 0);
});

Deno.test("of too many the idle strangers go, and nobody who has the token or waits for an answer", async () => {
  const few: DaemonOptions = { env: { GUESTD_MAX_CONNECTIONS: "50" } };
  await using daemon = await Daemon.bootstrapped(few);
  using kept = await daemon.connect();
  await kept.ask("GET", "/v1/procs", [daemon.authorization]);
  const id = await daemon.exec("read line; echo $line", { stdin: "piped" });
  const stream = daemon.stream(id);
  using strangers = new Strangers();
  for (let round = 0; round < 5; round++) {
    await strangers.come(daemon, 100, new Uint8Array());
    await eventually("few are left", () => daemon.fdCount() <= 50 + OWN);
    strictEqual((await kept.ask("GET", "/v1/procs", [daemon.authorization])).status, 200);
  }
  await daemon.stdin(id, "still here\n", true);
  strictEqual((await (await stream).rest()).text(), "still here\n");
  const told = daemon.log.withMessage("connections were ended: idle for too long, or too many");
  ok(Number(told[0]?.["connections"]) > 0);
});

asRoot.test("3,000 idle strangers leave a daemon of 1,024 descriptors its health and its commands", async () => {
  await using daemon = await Daemon.bootstrapped({ through: ["prlimit", "--nofile=1024:1024"] });
  using strangers = new Strangers();
  using prober = new Prober(daemon);
  for (let round = 0; round < 3; round++) {
    await strangers.come(daemon, 1000, new Uint8Array());
    // Accepting fails for a moment where more come at once than there are descriptors.
    const id = await eventually("a command", () => daemon.exec("echo here").catch(() => undefined));
    strictEqual((await daemon.outcome(id)).stdout, "here\n");
  }
  await eventually("half the descriptors are free", () => daemon.fdCount() < 512 + OWN);
  const { failed, times } = await prober.end();
  strictEqual(failed, 0);
  // Deno's server ends its listening socket where accepting fails, and a new one has to be made.
  ok((times.at(-1) ?? Infinity) < 3000, `${times.at(-1)} ms`);
});

Deno.test("a connection that brings more unfinished hooks than it may is ended, and with it what it brought besides", async () => {
  await using daemon = await Daemon.bootstrapped();
  using other = await daemon.connect();
  await other.ask("GET", "/v1/procs", [daemon.authorization]);
  const before = daemon.fdCount();
  using client = new Http2Client(daemon);
  client.session.on("error", () => {});
  await client.ask({ ":path": "/v1/health" });
  ok(daemon.fdCount() > before);
  for (let n = 0; n < 60; n++) {
    const hook = client.session.request({ ":method": "POST", ":path": RUN });
    hook.on("error", () => {});
    hook.write("x");
  }
  // Long before the first of them would have had its time.
  await eventually("the end of the connection", () => daemon.fdCount() <= before, 5000);
  strictEqual((await other.ask("GET", "/v1/procs", [daemon.authorization])).status, 200);
  await daemon.bootstrap(daemon.token);
  // The first four, and the one that was too many; of the others nothing was asked any more.
  const { hooks } = await daemon.guest.health();
  ok(hooks.length < 30, `${hooks.length} hooks`);
});
