import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { text } from "../support/answers.ts";
import { within } from "../support/await_event.ts";
import { Daemon, HOOK_PREFIX } from "../support/daemon.ts";
import { request } from "../support/raw_http.ts";
import { withStarted } from "../support/with_daemon.ts";

Deno.test("terminate is 200 whatever is sent, and begins even if its client vanishes", async () => {
  for (const body of ["{no json", new Uint8Array(200_000)]) {
    await using daemon = await Daemon.start();
    strictEqual(await text(await daemon.hook("terminate", body)), "");
    strictEqual(await daemon.end(), 0);
  }
  await using daemon = await Daemon.start();
  {
    using _connection = await daemon.connect(request("POST", `${HOOK_PREFIX}/terminate`));
  }
  strictEqual(await daemon.end(), 0);
});

withStarted.test("a terminated daemon's answer arrives whole; it accepts nobody any more and says who ended it", async ({ daemon }) => {
  using connection = await daemon.connect();
  const answer = await connection.ask("POST", `${HOOK_PREFIX}/terminate`);
  strictEqual(answer.status, 200);
  await within("the end of the connection", connection.closedByPeer());
  strictEqual(await daemon.end(), 0);
  let refusal: unknown;
  await daemon.connect().then((open) => open[Symbol.dispose](), (error) => refusal = error);
  match(String(refusal), /refused/i);
  const [line] = daemon.log.withMessage("shutting down");
  deepStrictEqual(line?.["by"], "hook");
});
