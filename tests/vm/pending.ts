/**
 * What the daemon does not do yet. A check of such a thing runs in full from the day on which its probe says that it is
 * there; until then it is only said to be pending. What is not named here has to work.
 *
 * @module
 */

/** The parts that are still missing. */
export type Part = "files" | "tunnel" | "identity" | "clock" | "spool";

const MISSING: ReadonlySet<Part> = new Set<Part>();

/** Whether `part` may be passed over: it is named as missing, and `there` says that it is. */
export async function pending(part: Part, there: () => Promise<boolean>): Promise<boolean> {
  if (!MISSING.has(part) || await there()) return false;
  console.log(`PENDING: ${part}`);
  return true;
}
