/**
 * Tests that begin with a daemon of their own which has its token.
 *
 * ```ts
 * withDaemon.test("a command says hello", async ({ daemon, scratch }) => {...});
 * ```
 */

import { asRoot } from "./as_root.ts";
import { Daemon, type DaemonOptions } from "./daemon.ts";
import { Scratch } from "./scratch.ts";

export interface Given {
  readonly daemon: Daemon;
  /** A directory of the test's own, made when it is asked for; it outlives the daemon. */
  readonly scratch: Scratch;
  readonly t: Deno.TestContext;
}

type Body = (given: Given) => Promise<void> | void;

interface Tests {
  test(name: string, body: Body): void;
}

function tests(
  test: (name: string, fn: (t: Deno.TestContext) => Promise<void>) => void,
  start: () => Promise<Daemon>,
): Tests {
  return {
    test: (name, body) =>
      test(name, async (t) => {
        using made = new DisposableStack();
        await using daemon = await start();
        let scratch: Scratch | undefined;
        await body({
          daemon,
          t,
          get scratch(): Scratch {
            return scratch ??= made.use(new Scratch());
          },
        });
      }),
  };
}

/** Tests whose daemons are started with these options. */
export function withOptions(options: DaemonOptions): Tests {
  return tests(Deno.test, () => Daemon.bootstrapped(options));
}

/** Tests whose daemons have their defaults. */
export const withDaemon: Tests = withOptions({});

/** Tests of {@link asRoot} whose daemons are nobody's. */
export const withNobody: Tests = tests(asRoot.test, () => {
  const through = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
  return Daemon.bootstrapped({ through });
});

/** The same for tests of {@link asRoot}. */
export const withDaemonAsRoot: Tests = tests(asRoot.test, () => Daemon.bootstrapped());

/** Tests whose daemons have no token yet. */
export const withStarted: Tests = tests(Deno.test, () => Daemon.start());
