/** Tests that begin with a tunnel through a daemon of their own. */

import type { BareSocket } from "./bare_socket.ts";
import { TunnelClient } from "./tunnel_client.ts";
import { Guest } from "./tunnel_guest.ts";
import { type Given, sharedDaemon, type Tests, withDaemon } from "./with_daemon.ts";

/** The client's end, and the guest's. */
interface GivenTunnel extends Given {
  readonly client: TunnelClient;
  readonly connection: BareSocket;
  readonly guest: Guest;
}

function tunnelsOf(daemons: Pick<Tests, "test">): {
  test(name: string, body: (given: GivenTunnel) => Promise<void>): void;
} {
  return {
    test: (name, body) =>
      daemons.test(name, async ({ daemon, scratch, t }) => {
        using guest = new Guest();
        using client = await TunnelClient.open(daemon, `?port=${guest.port}`);
        using connection = await guest.accept();
        await body({ daemon, scratch, t, guest, client, connection });
      }),
  };
}

export const withTunnel: ReturnType<typeof tunnelsOf> = tunnelsOf(withDaemon);

/** The same through the daemon that a file's tests share. */
export const sharedTunnel: ReturnType<typeof tunnelsOf> = tunnelsOf(sharedDaemon);
