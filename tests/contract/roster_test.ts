import { deepStrictEqual, ok, strictEqual } from "node:assert/strict";
import { Daemon } from "../support/daemon.ts";
import type { PublishedRow } from "../support/published.ts";
import { Scratch } from "../support/scratch.ts";
import { LIMITS, PROVOCATIONS } from "./provocations.ts";

/** A name for each status of a row. */
function keysOf(row: PublishedRow, hookPrefix: string): string[] {
  return row.statuses.map(({ code, error }) =>
    `${row.method} ${row.path.replace(hookPrefix, "")} ${code} ${error}`.trim()
  );
}

/** The 503 and 401 of any Bearer route, provoked alike. */
async function gate(daemon: Daemon, row: PublishedRow, code: 503 | 401): Promise<Response> {
  const authorization = code === 503 ? "" : "Bearer another";
  const init = { method: row.method, headers: { authorization } };
  return await daemon.fetch(row.path.replace("{id}", "x"), init);
}

Deno.test("every status that a route publishes comes about, with its slug and in its shape", async (test) => {
  await using young = await Daemon.start();
  await using daemon = await Daemon.bootstrapped({ env: LIMITS });
  const { routes, hook_prefix } = daemon.document;
  // The one that ends the daemon is the last.
  const ends = ({ path }: PublishedRow): number => Number(path.endsWith("/terminate"));
  const inTurn = routes.toSorted((one, other) => ends(one) - ends(other));
  const provoked = new Set<string>();
  for (const row of inTurn) {
    for (const [index, key] of keysOf(row, hook_prefix).entries()) {
      provoked.add(key);
      await test.step(key, async () => {
        const status = row.statuses[index];
        ok(status !== undefined);
        const { code, error } = status;
        if (row.auth === "Bearer" && (code === 503 || code === 401)) {
          const answer = await gate(code === 503 ? young : daemon, row, code);
          strictEqual(answer.status, code);
          await answer.text();
          return;
        }
        const provoke = PROVOCATIONS[key];
        ok(provoke !== undefined, "no test knows how this status comes about");
        using scratch = new Scratch();
        const answer = await provoke(daemon, scratch);
        // The shape was checked against the schema when it was fetched.
        strictEqual(answer.status, code);
        const body = await answer.text();
        if (error !== "") strictEqual(JSON.parse(body).error, error);
        if (row.response === null && code < 300) strictEqual(body, "");
      });
    }
  }
  strictEqual(await daemon.end(), 0);
  const unknown = Object.keys(PROVOCATIONS).filter((key) => !provoked.has(key));
  deepStrictEqual(unknown, [], "statuses that no route publishes");
});
