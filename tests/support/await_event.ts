/**
 * Waiting in tests. A test waits for the thing itself: a promise that settles, a line of the log, an event of a
 * stream. Only for facts that announce themselves to nobody, such as another process in /proc, there is `eventually`.
 */

/** Longer than anything here takes on a machine that is busy; a wait that ends this way is a failure. */
export const PATIENCE_MS = 20_000;

/** The promise's own outcome, or an error that says what was waited for. */
export async function within<T>(
  what: string,
  promise: Promise<T>,
  timeoutMs: number = PATIENCE_MS,
): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`Cannot see ${what}: nothing for ${timeoutMs} ms`)),
    timeoutMs,
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Asks `probe` again and again until it gives something other than undefined or false, and returns that. The one
 * place where a test looks at the clock instead of at an event: for facts that send none.
 */
export async function eventually<T>(
  what: string,
  probe: () => T | undefined | false | Promise<T | undefined | false>,
  timeoutMs: number = PATIENCE_MS,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (let pauseMs = 1;; pauseMs = Math.min(pauseMs * 2, 50)) {
    const seen = await probe();
    if (seen !== undefined && seen !== false) return seen;
    if (performance.now() > deadline) {
      throw new Error(`Cannot see ${what}: not so for ${timeoutMs} ms`);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** Waits until `progress` is the same in twenty looks in a row, and gives that. */
export async function stalled(
  what: string,
  progress: () => number,
  timeoutMs: number = PATIENCE_MS,
): Promise<number> {
  let [seen, looks] = [-1, 0];
  await eventually(what, () => {
    looks = seen === progress() ? looks + 1 : 0;
    seen = progress();
    return looks >= 20;
  }, timeoutMs);
  return seen;
}
