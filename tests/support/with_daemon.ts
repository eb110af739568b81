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

export interface Tests {
  test(name: string, body: Body): void;
  /**
   * Tests that wait more than they work, all at once, each with a daemon of its own: to Deno one test, of which they are
   * the steps.
   */
  together(name: string, bodies: Readonly<Record<string, Body>>): void;
}

function given(daemon: Daemon, t: Deno.TestContext, made: DisposableStack): Given {
  let scratch: Scratch | undefined;
  return {
    daemon,
    t,
    get scratch(): Scratch {
      return scratch ??= made.use(new Scratch());
    },
  };
}

function tests(
  test: (name: string, fn: (t: Deno.TestContext) => Promise<void>) => void,
  start: () => Promise<Daemon>,
): Tests {
  const run = async (t: Deno.TestContext, body: Body): Promise<void> => {
    using made = new DisposableStack();
    await using daemon = await start();
    await body(given(daemon, t, made));
  };
  // What a step leaves open is looked for when all have ended.
  const unchecked = { sanitizeOps: false, sanitizeResources: false, sanitizeExit: false };
  return {
    test: (name, body) => test(name, (t) => run(t, body)),
    together: (name, bodies) =>
      test(name, async (t) => {
        const steps = Object.entries(bodies).map(([name, body]) =>
          t.step({ name, fn: (step) => run(step, body), ...unchecked })
        );
        await Promise.all(steps);
      }),
  };
}

/** Tests whose daemons are started with these options. */
export function withOptions(options: DaemonOptions): Tests {
  return tests(Deno.test, () => Daemon.bootstrapped(options));
}

/** Tests whose daemons have their defaults. */
export const withDaemon: Tests = withOptions({});

/** One daemon for a file's tests. Invariant: it is there from the file's first test to its last. */
class SharedDaemon implements Pick<Tests, "test"> {
  #daemon: Promise<Daemon> | undefined;
  #announced = false;

  test(name: string, body: Body): void {
    if (!this.#announced) {
      this.#announced = true;
      Deno.test.beforeAll(async () => void await (this.#daemon = Daemon.bootstrapped()));
      Deno.test.afterAll(async () => await (await this.#daemon)?.[Symbol.asyncDispose]());
    }
    Deno.test(name, async (t) => {
      using made = new DisposableStack();
      if (this.#daemon === undefined) throw new Error("Cannot share a daemon: none was started");
      await body(given(await this.#daemon, t, made));
    });
  }
}

/** Tests that share their file's daemon: they look at nothing that others of them do or leave in it. */
export const sharedDaemon: Pick<Tests, "test"> = new SharedDaemon();

/** Tests of {@link asRoot} whose daemons are nobody's. */
export const withNobody: Tests = tests(asRoot.test, () => {
  const through = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
  return Daemon.bootstrapped({ through });
});

/** The same for tests of {@link asRoot}. */
export const withDaemonAsRoot: Tests = tests(asRoot.test, () => Daemon.bootstrapped());

/** Tests whose daemons have no token yet. */
export const withStarted: Tests = tests(Deno.test, () => Daemon.start());
