/** What a client's way to a guest has to carry: a file, a command's output, a tunnel. */

import { strictEqual } from "node:assert/strict";
import type { Guest } from "../../src/client/guest.ts";
import { digest, noise } from "./bytes.ts";
import { echoed } from "./tunnel_echo.ts";
import { Guest as Listener } from "./tunnel_guest.ts";

/** Two megabytes each way, by each of them; `file` is a path for them. */
export async function checkRoundTrips(guest: Guest, file: string): Promise<void> {
  const bytes = noise(2 << 20);
  await guest.writeFile(file, new Blob([bytes]).stream(), { size: bytes.length });
  const { stdout } = await guest.command("cat", { args: [file] }).output();
  strictEqual(await digest(stdout), await digest(bytes));
  using server = new Listener();
  void server.echo();
  await using tunnel = await guest.connect(server.port);
  strictEqual(await digest(await echoed(tunnel, bytes)), await digest(bytes));
}
