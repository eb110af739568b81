/** What clients without a token may take of a daemon: connections, descriptors, memory, and the time of others. */

import { ok, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { eventually, within } from "../support/await_event.ts";
import { latin1 } from "../support/bytes.ts";
import { Daemon, type DaemonOptions, HOOK_PREFIX } from "../support/daemon.ts";
import { Http2Client } from "../support/http2_client.ts";
import { forgetPeak, peakBytes } from "../support/proc.ts";
import { Prober } from "../support/prober.ts";
import { CHUNKED, request, sized } from "../support/raw_http.ts";

const MIB = 1024 * 1024;
const RUN = `${HOOK_PREFIX}/run`;
/** What a daemon takes beside its strangers: the listener, its threads' and the test's own connections. */
const OWN = 64;
/** How many strangers dial at a time. */
const AT_ONCE = 40;

/** Connections that are closed at the end of the block, in whatever state they are. */
class Strangers implements Disposable {
  readonly #connections: Deno.Conn[] = [];

  /** Each sends this, and stays. */
  async come(daemon: Daemon, count: number, sent: Uint8Array): Promise<void> {
    let left = count;
    const dial = async (): Promise<void> => {
      while (left-- > 0) {
        try {
          const connection = await Deno.connect({ hostname: "127.0.0.1", port: daemon.port });
          this.#connections.push(connection);
          if (sent.length > 0) await connection.write(sent);
        } catch {
          // Ended already, or refused for the moment in which accepting fails.
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, dial));
  }

  /** How many came, once the daemon has ended the connection of each. */
  async ended(): Promise<number> {
    const room = new Uint8Array(1024);
    const ends = this.#connections.map(async (connection) => {
      // A reset is an end, too.
      while (await connection.read(room).catch(() => null) !== null);
    });
    return (await within("the end of each", Promise.all(ends))).length;
  }

  [Symbol.dispose](): void {
    for (const connection of this.#connections) connection.close();
  }
}

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
  const id = await daemon.exec("read line; echo $line", { stdin: true });
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
  "40 × 100 of HTTP/2": [80, (daemon, house) => overHttp2(daemon, house, 40, 100, 1)],
  "500 × 60 of HTTP/2": [200, (daemon, house) => overHttp2(daemon, house, 500, 60, 1000)],
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
      await using daemon = await Daemon.bootstrapped();
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
