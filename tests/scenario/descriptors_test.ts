import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { eventually } from "../support/await_event.ts";
import { isLive } from "../support/proc.ts";
import { bodyText } from "../support/raw_http.ts";
import { Daemon } from "../support/daemon.ts";

/** The daemon and its launcher with few descriptors; Deno raises the soft limit to the hard one. */
const FEW = ["prlimit", "--nofile=64:64"];

/** What the daemon says when accepting a connection failed. */
const FAILED = "cannot accept connections: listening again";

/** Connections that take every descriptor the daemon has left: accepting one more has failed. */
async function exhaust(daemon: Daemon): Promise<Disposable> {
  const connections: Deno.TcpConn[] = [];
  while (daemon.log.withMessage(FAILED).length === 0) {
    try {
      connections.push(await Deno.connect({ hostname: "127.0.0.1", port: daemon.port }));
    } catch {
      // Refused, because the door is closed already: the log is about to say so.
      break;
    }
  }
  await daemon.log.until("the failure", (line) => line.msg === FAILED);
  return {
    [Symbol.dispose](): void {
      for (const connection of connections) connection.close();
    },
  };
}

Deno.test("running out of descriptors closes the door for a moment, not for ever", async () => {
  await using daemon = await Daemon.bootstrapped({ through: FEW });
  (await exhaust(daemon))[Symbol.dispose]();
  const health = await eventually("it answers again", async () => {
    const answer = await daemon.fetch("/v1/health").catch(() => undefined);
    return answer?.status === 200 ? await answer.json() : undefined;
  });
  strictEqual(health.bootstrapped, true);
});

Deno.test("a group is killed also when /proc cannot be read for want of descriptors", async () => {
  await using daemon = await Daemon.bootstrapped({
    through: FEW,
    env: { GUESTD_KILL_GRACE_SECS: "0.3" },
  });
  const id = await daemon.exec("sleep 1000 >/dev/null 2>&1 & echo $!");
  const pid = Number((await daemon.outcome(id)).stdout);
  // Its connection is there before the descriptors are gone.
  using kept = await daemon.connect();
  using _connections = await exhaust(daemon);
  const answer = await kept.ask("POST", `/v1/exec/${id}/kill`, [daemon.authorization]);
  deepStrictEqual(JSON.parse(bodyText(answer)), { exec_id: id, killed: true });
  await eventually("the child is gone", () => !isLive(pid));
});
