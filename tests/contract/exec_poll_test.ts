import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { BLOCK } from "../support/child_scripts.ts";
import { execPath } from "../support/daemon.ts";
import { sharedDaemon } from "../support/with_daemon.ts";

sharedDaemon.test("exit codes from 0 to 255 are the child's own", async ({ daemon }) => {
  for (const code of [0, 1, 126, 127, 128, 137, 143, 255]) {
    const { exit_code, signal } = await daemon.outcome(await daemon.exec(`exit ${code}`));
    deepStrictEqual([exit_code, signal], [code, null]);
  }
});

sharedDaemon.test("a child that dies to a signal has its number and no exit code", async ({ daemon }) => {
  for (const number of [1, 2, 6, 9, 11, 14, 15, 34, 64]) {
    const id = await daemon.exec(`ulimit -c 0; kill -${number} $$; sleep 100`);
    const { exit_code, signal } = await daemon.outcome(id);
    deepStrictEqual([exit_code, signal], [null, number]);
  }
});

sharedDaemon.test("a poll takes no query and minds none", async ({ daemon }) => {
  const id = await daemon.exec("true");
  await daemon.follow(id);
  strictEqual((await daemon.fetch(`${execPath(id)}?offset=x&%ff=%`)).status, 200);
});

sharedDaemon.test("a command that is over in an instant is exited in the first poll", async ({ daemon }) => {
  for (let times = 0; times < 20; times++) {
    const id = await daemon.exec(["echo", "quick"]);
    const { phase, stdout } = await daemon.guest.poll(id);
    deepStrictEqual([phase, stdout], ["exited", "quick\n"]);
  }
});

sharedDaemon.test("a held poll whose client leaves costs nothing, and the next one is answered", async ({ daemon }) => {
  const id = await daemon.exec(BLOCK);
  const leaving = new AbortController();
  const held = daemon.fetch(execPath(id), { signal: leaving.signal }).catch(() => "left");
  leaving.abort();
  strictEqual(await held, "left");
  strictEqual((await daemon.guest.poll(id)).phase, "running");
});
