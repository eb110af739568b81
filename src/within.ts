/** What `pending` gives, or `late` once `ms` milliseconds have passed; rejects as `pending` does until then. */
export async function within<T, L>(ms: number, pending: Promise<T>, late: L): Promise<T | L> {
  const { promise, resolve } = Promise.withResolvers<L>();
  const timer = setTimeout(resolve, ms, late);
  try {
    return await Promise.race([pending, promise]);
  } finally {
    clearTimeout(timer);
  }
}
