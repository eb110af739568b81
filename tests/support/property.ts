/**
 * How long properties are looked at. In the test run each takes some seconds at most; for longer there is
 * `GUESTD_PROPERTY_RUNS=10000 ./build.sh test tests/property/`, and with `GUESTD_PROPERTY_SEED` a failure, which names
 * its seed, comes again. The properties of the native library take `PROPTEST_CASES`.
 */

/** Parameters for `fc.assert`: so many runs, unless the environment says otherwise. */
export function runs(count: number): { readonly numRuns: number; readonly seed?: number } {
  const wanted = Number(Deno.env.get("GUESTD_PROPERTY_RUNS") ?? count);
  const seed = Deno.env.get("GUESTD_PROPERTY_SEED");
  return { numRuns: wanted, ...(seed === undefined ? {} : { seed: Number(seed) }) };
}
