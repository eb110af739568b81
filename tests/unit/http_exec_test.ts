import { rejects, strictEqual } from "node:assert/strict";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import type { Exec } from "../../src/exec/exec.ts";
import type { Registry } from "../../src/exec/registry.ts";
import { Bodies } from "../../src/http/body.ts";
import { execRoutes } from "../../src/http/routes/exec.ts";
import type { Call } from "../../src/http/router.ts";
import { Log } from "../../src/log.ts";

Deno.test("a poll whose output cannot be read to its end is cut short, and pins it no longer", async () => {
  let pinned = 0;
  const exec = {
    id: "x",
    phase: "exited",
    ageMs: 1000,
    facts: { exitCode: 0, captured: [40_000, 0] },
    native: {
      output: (_: number, offset: number, out: Uint8Array): number => {
        if (offset > 0) throw new Error("Cannot read captured output: errno 5");
        return out.length;
      },
    },
    pin: (): Disposable => {
      pinned++;
      return { [Symbol.dispose]: (): number => pinned-- };
    },
  };
  const registry = { get: () => Promise.resolve(exec as never as Exec) } as never as Registry;
  const [limits, log] = [DEFAULT_LIMITS, new Log("error")];
  const routes = execRoutes({ registry, limits, log, bodies: new Bodies(limits, 10_000) });
  const answer = await routes.exec_poll({ id: "x" } as Call);
  strictEqual(pinned, 1);
  await rejects(answer.text(), /errno 5/);
  strictEqual(pinned, 0);
});
