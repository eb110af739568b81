/** Tests of the client library: a daemon, the client as users make it, and one whose connections can be cut. */

import { Guest } from "../../src/client/guest.ts";
import { CuttingProxy } from "./cutting_proxy.ts";
import { type Given, withDaemon, withOptions } from "./with_daemon.ts";

interface GivenGuest extends Omit<Given, "daemon"> {
  readonly daemon: Given["daemon"];
  /** Straight to the daemon. */
  readonly guest: Guest;
  /** The way that `cutGuest` takes. */
  readonly proxy: CuttingProxy;
  readonly cutGuest: Guest;
}

interface GuestTests {
  test(name: string, body: (given: GivenGuest) => Promise<void>): void;
}

const tests = (daemons: Pick<typeof withDaemon, "test">): GuestTests => ({
  test(name, body): void {
    daemons.test(name, async (given) => {
      const { daemon } = given;
      using proxy = new CuttingProxy(daemon.port);
      const guest = new Guest(daemon.url, { token: daemon.token });
      const cutGuest = new Guest(proxy.url, { token: daemon.token });
      const { t } = given;
      await body({
        daemon,
        t,
        guest,
        proxy,
        cutGuest,
        get scratch() {
          return given.scratch;
        },
      });
    });
  },
});

export const withGuest: GuestTests = tests(withDaemon);

/** On a busy machine a client may be back from a cut later than within the time in which a daemon keeps all. */
export const withLongReplay: GuestTests = tests(
  withOptions({ env: { GUESTD_STREAM_REPLAY_BYTES: "33554432" } }),
);
