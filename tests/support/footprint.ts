/** What a daemon takes of its guest, and whether it gives that back: memory, descriptors and threads. */

import { strictEqual } from "node:assert/strict";
import { eventually } from "./await_event.ts";
import type { Daemon } from "./daemon.ts";
import { establishedAt, ownBytes, threadNames } from "./proc.ts";

/** So much more memory than before counts as given back, in bytes. */
const SLACK_BYTES = 10 * 1024 * 1024;
/** And so much more of the program's own pages, of which some are used for the first time. */
const PROGRAM_BYTES = 10 * 1024 * 1024;

/** Threads of pools, Deno's and those of transfers: they stay for ten seconds, in case there is more to do. */
const POOLED = /^(tokio-|guestd-read|guestd-write)/;
/** So many more threads of pools than before may wait for their end. */
const SLACK_POOLED = 4;

/** What a daemon takes, in bytes and numbers. */
interface Taken {
  /** Resident memory, of which the pages of its program come and go. */
  readonly resident: number;
  /** The part of it that is its own. */
  readonly own: number;
  /** Those besides the connections that the test itself still holds. */
  readonly descriptors: number;
  readonly threads: number;
  readonly pooled: number;
}

function taken(daemon: Daemon): Taken {
  const names = threadNames(daemon.pid);
  const pooled = names.filter((name) => POOLED.test(name)).length;
  return {
    resident: daemon.rss(),
    own: ownBytes(daemon.pid),
    descriptors: daemon.fdCount() - establishedAt(daemon.port),
    threads: names.length - pooled,
    pooled,
  };
}

export class Footprint {
  readonly #daemon: Daemon;
  readonly #before: Taken;

  private constructor(daemon: Daemon) {
    this.#daemon = daemon;
    this.#before = taken(daemon);
  }

  /** Measures a daemon that has done some work and rests: what its start took is given back. */
  static async of(daemon: Daemon): Promise<Footprint> {
    await daemon.log.until(
      "what the start took to be given back",
      ({ msg }) => msg === "memory was given back",
    );
    const id = await daemon.exec(["echo", "warm"]);
    strictEqual((await daemon.outcome(id)).stdout, "warm\n");
    await daemon.guest.ack(id);
    await healthy(daemon);
    return new Footprint(daemon);
  }

  get bytes(): number {
    return this.#before.resident;
  }

  /**
   * Passes once the daemon is healthy and takes no more than it did, but for 10 MiB of memory and a few threads of
   * pools, for which it waits if `pools` is set.
   */
  async back(pools = false): Promise<void> {
    await healthy(this.#daemon);
    const before = this.#before;
    let now = before;
    const isBack = (): boolean => {
      now = taken(this.#daemon);
      return now.resident <= before.resident + SLACK_BYTES + PROGRAM_BYTES &&
        now.own <= before.own + SLACK_BYTES &&
        now.descriptors <= before.descriptors && now.threads <= before.threads &&
        now.pooled <= before.pooled + (pools ? 0 : SLACK_POOLED);
    };
    await eventually("everything given back", isBack).catch((error: Error) => {
      const seen = `${JSON.stringify(now)} of ${JSON.stringify(before)}`;
      throw new Error(`${error.message}: ${seen}`);
    });
  }
}

/** Asks on a connection of its own, which is closed again. */
export async function healthy(daemon: Daemon): Promise<void> {
  using connection = await daemon.connect();
  strictEqual((await connection.ask("GET", "/v1/health")).status, 200);
}
