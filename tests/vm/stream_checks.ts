/** The stream of a command inside a guest. */

import { strictEqual } from "node:assert/strict";
import type { Guest } from "./guest.ts";

/** A command that says the run hook's greeting, waits for its stdin and ends with 3. */
export async function checkStream(guest: Guest): Promise<void> {
  const id = await guest.start('echo "$GREETING"; read -r line; echo "$line" >&2; exit 3', {
    stdin: "piped",
  });
  await using stream = await guest.stream(id);
  await stream.untilOutput("hello\n", "stdout");
  await guest.client.writeStdin(id, new TextEncoder().encode("and back\n"));
  const rest = await stream.rest();
  strictEqual(rest.text("stderr"), "and back\n");
  strictEqual(rest.exit.exit_code, 3);
}
