/**
 * `./build.sh demo`: a guided tour of a real daemon on a free port, which then serves until interrupted.
 *
 * @module
 */

import { Tour } from "./demo_tour.ts";
import { LOG_FILE, TetheredDaemon } from "./tethered_daemon.ts";

/** Time after SIGTERM that a kill leaves, in seconds: a tour has not the ten of a daemon's own default. */
const GRACE = { GUESTD_KILL_GRACE_SECS: "1" };

/** What ends a demo from outside, with the exit code that is customary then. */
class Interrupted extends Error {
  readonly code: number;

  constructor(signal: string, code: number) {
    super(`interrupted by ${signal}`);
    this.code = code;
  }
}

/** Rejects at the first signal that asks the demo to end; later ones do nothing, the end is on its way. */
function interruption(): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  const codes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
  for (const [name, code] of Object.entries(codes)) {
    Deno.addSignalListener(name as Deno.Signal, () => reject(new Interrupted(name, code)));
  }
  return promise;
}

/** Runs the demo and gives its exit code. */
async function main(): Promise<number> {
  const interrupted = interruption();
  const leaving = new AbortController();
  let serving = false;
  try {
    await using daemon = new TetheredDaemon(GRACE);
    const crashed = daemon.ended.then(() => {
      throw new Error("Cannot go on: the daemon has ended");
    });
    const toured = daemon.port.then((port) => new Tour(port, leaving.signal).take());
    try {
      await Promise.race([toured, crashed, interrupted]);
      serving = true;
      await Promise.race([crashed, interrupted]);
    } finally {
      leaving.abort();
    }
    return 0;
  } catch (error) {
    if (error instanceof Interrupted) {
      console.log(serving ? "\nThe daemon has stopped." : "\nInterrupted; the daemon has stopped.");
      return serving ? 0 : error.code;
    }
    console.error(`\n${error instanceof Error ? error.message : error}; see ${LOG_FILE}`);
    return 1;
  }
}

Deno.exit(await main());
