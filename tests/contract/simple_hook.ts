import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import type { HookName } from "../../src/contract/hooks.ts";
import { text } from "../support/answers.ts";
import { Daemon, HOOK_PREFIX } from "../support/daemon.ts";
import { header, request } from "../support/raw_http.ts";

/** Bodies that no hook but `run` may mind: the platform ends the VM on any answer but 200. */
const BODIES: readonly (string | Uint8Array | undefined)[] = [
  undefined,
  "",
  "{no json",
  "[".repeat(100_000),
  JSON.stringify({ runHookPayload: 7 }),
  Uint8Array.of(0xff, 0xfe, 0),
  new Uint8Array(200_000),
];

/** What the hooks without a body of their own have in common. */
export function simpleHookTests(hook: Exclude<HookName, "run" | "terminate">): void {
  Deno.test(`${hook} is 200 whatever is sent, before and after bootstrap, token or not, and is recorded`, async () => {
    await using daemon = await Daemon.start();
    const before = Math.floor(Date.now() / 1000);
    await daemon.hook(hook);
    const after = Math.floor(Date.now() / 1000);
    const { hooks } = await daemon.guest.health();
    deepStrictEqual(hooks.map((entry) => entry.hook), [hook]);
    const firedAt = Number(hooks[0]?.fired_at);
    ok(before <= firedAt && firedAt <= after, `${before} ${firedAt} ${after}`);
    for (const body of BODIES) strictEqual(await text(await daemon.hook(hook, body)), "");
    strictEqual((await daemon.guest.health()).hooks.length, 1 + BODIES.length);
    const ask = async (authorization: string): Promise<void> => {
      const path = `${HOOK_PREFIX}/${hook}`;
      const response = await daemon.post(path, undefined, { headers: { authorization } });
      strictEqual(await text(response), "");
    };
    for (const authorization of ["", "Bearer nobody", "Basic x"]) await ask(authorization);
    await daemon.bootstrap();
    for (const authorization of ["", "Bearer nobody", `Bearer ${daemon.token}`]) {
      await ask(authorization);
    }
    const { length } = (await daemon.guest.health()).hooks;
    {
      using connection = await daemon.connect();
      const headers = [["Content-Length", "100"]] as const;
      await connection.send(request("POST", `${HOOK_PREFIX}/${hook}`, headers, "half"));
      const head = await connection.head();
      strictEqual(head.status, 200);
      strictEqual(header(head, "service-version"), daemon.document.daemon_version);
    }
    strictEqual(
      (await daemon.guest.health()).hooks.length,
      length + 1,
      "also when its client vanishes",
    );
  });
}
