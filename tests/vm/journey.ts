/**
 * A test of many steps on one machine, each of which holds what the next one needs. It is one test to Deno, so that what
 * the steps leave open is checked for at its end.
 */

export type AddStep = (name: string, fn: () => Promise<void>) => void;

/** A test that takes its steps in order, stops at the first that fails, and always calls `end`. */
export function journey(name: string, end: () => Promise<void>): AddStep {
  const steps: { readonly name: string; readonly fn: () => Promise<void> }[] = [];
  Deno.test(name, async () => {
    try {
      for (const step of steps) {
        await step.fn().catch((cause: unknown) => {
          throw new Error(`Cannot go on: ${step.name}`, { cause });
        });
        console.log(`ok: ${step.name}`);
      }
    } finally {
      await end();
    }
  });
  return (name, fn) => steps.push({ name, fn });
}
