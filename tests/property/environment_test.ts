import { deepStrictEqual } from "node:assert/strict";
import fc from "fast-check";
import { childEnvironment, DEFAULT_PATH } from "../../src/exec/launch.ts";
import type { PasswdEntry } from "../../src/exec/passwd.ts";
import { Daemon } from "../support/daemon.ts";
import { runs } from "../support/property.ts";

/** Names that meet in all layers, those with defaults and those that trip objects up among them. */
const name = fc.oneof(
  fc.constantFrom("PATH", "HOME", "USER", "LOGNAME", "SHELL", "A", "__proto__", "constructor"),
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 5 })
    .filter((text) => !/[=\0]/.test(text) && text.isWellFormed()),
);
const value = fc.string({ unit: "grapheme", maxLength: 8 })
  .filter((text) => !text.includes("\0") && text.isWellFormed());
const layer = fc.uniqueArray(fc.tuple(name, value), { selector: ([name]) => name, maxLength: 8 });
const entry: fc.Arbitrary<PasswdEntry | undefined> = fc.option(
  fc.record({
    name: fc.constant("app"),
    uid: fc.constant(7),
    gid: fc.constant(7),
    home: fc.constantFrom("", "/home/app"),
    shell: fc.constantFrom("", "/bin/zsh"),
  }),
  { nil: undefined },
);

type Layer = readonly (readonly [string, string])[];

const find = (layer: Layer, wanted: string): string | undefined =>
  layer.find(([name]) => name === wanted)?.[1];

/** The default of a name; undefined where it has none. */
function defaultOf(name: string, user: PasswdEntry | undefined): string | undefined {
  switch (name) {
    case "PATH":
      return DEFAULT_PATH;
    case "HOME":
      return user === undefined || user.home === "" ? "/" : user.home;
    case "SHELL":
      return user === undefined || user.shell === "" ? "/bin/sh" : user.shell;
    case "USER":
    case "LOGNAME":
      return user?.name;
    default:
      return undefined;
  }
}

Deno.test("of any layers each name has the value of the highest that sets it, and no other name is there", () => {
  fc.assert(
    fc.property(
      layer,
      fc.array(name, { maxLength: 6 }),
      layer,
      layer,
      entry,
      (daemonEnv, inherit, base, request, user) => {
        const names = new Set([
          ...["PATH", "HOME", "USER", "LOGNAME", "SHELL"],
          ...[daemonEnv, base, request].flat().map(([name]) => name),
        ]);
        const wanted = new Map<string, string>();
        for (const name of names) {
          const value = find(request, name) ?? find(base, name) ??
            (inherit.includes(name) ? find(daemonEnv, name) : undefined) ?? defaultOf(name, user);
          if (value !== undefined) wanted.set(name, value);
        }
        const variables = new Map(base);
        const sources = {
          inherit,
          daemonEnv: (name: string): string | undefined => find(daemonEnv, name),
          passwd: { entry: (): PasswdEntry | undefined => user },
          base: { environment: variables },
        };
        const got = childEnvironment(sources, 7, new Map(request));
        deepStrictEqual([...got].sort(), [...wanted].sort());
      },
    ),
    runs(2000),
  );
});

Deno.test("a child finds the layers in its environment, byte for byte", async () => {
  await using daemon = await Daemon.start({
    env: { GUESTD_INHERIT_ENV: "A,B,PATH", A: "daemon", B: "daemon", C: "daemon" },
  });
  await daemon.bootstrap("token", { env: { B: "base", D: "base", HOME: "/base" } });
  const under = { A: "daemon", B: "base", D: "base", HOME: "/base" };
  await fc.assert(
    fc.asyncProperty(layer, async (request) => {
      const id = await daemon.exec(["/usr/bin/env", "-0"], { env: Object.fromEntries(request) });
      const { stdout } = await daemon.outcome(id);
      const got = new Map(
        stdout.split("\0").slice(0, -1).map((pair): [string, string] => {
          const equals = pair.indexOf("=");
          return [pair.slice(0, equals), pair.slice(equals + 1)];
        }),
      );
      // The defaults of the user are those of whoever runs this test.
      for (const name of ["PATH", "USER", "LOGNAME", "SHELL"]) {
        if (find(request, name) === undefined) got.delete(name);
      }
      const wanted = new Map([...Object.entries(under), ...request]);
      deepStrictEqual([...got].sort(), [...wanted].sort());
      await daemon.guest.ack(id);
    }),
    runs(40),
  );
});
