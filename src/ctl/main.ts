/** guestctl: from the arguments to the exit code. */

import { main } from "./program.ts";

Deno.exit(await main(Deno.args));
