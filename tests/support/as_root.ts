/**
 * Tests that look into a daemon, at its descriptors, its peak of memory or its system calls, or that run a command as
 * another user. A daemon is closed to processes of its own user, so that only root may: others skip these.
 */

/** What `Deno.test` is, but skipped by whoever is not root. */
export const asRoot = {
  test(name: string, fn: (t: Deno.TestContext) => Promise<void>): void {
    Deno.test({ name, ignore: Deno.uid() !== 0, fn });
  },
};
