/** Tests of the client library: a daemon, the client as users make it, and one whose connections can be cut. */

import { Guest } from "../../src/client/guest.ts";
import { CuttingProxy } from "./cutting_proxy.ts";
import { type Given, withDaemon } from "./with_daemon.ts";

interface GivenGuest extends Omit<Given, "daemon"> {
  readonly daemon: Given["daemon"];
  /** Straight to the daemon. */
  readonly guest: Guest;
  /** The way that `cutGuest` takes. */
  readonly proxy: CuttingProxy;
  readonly cutGuest: Guest;
}

export const withGuest = {
  test(name: string, body: (given: GivenGuest) => Promise<void>): void {
    withDaemon.test(name, async (given) => {
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
};
