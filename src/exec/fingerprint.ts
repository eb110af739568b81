import { StartRequest } from "../contract/exec.ts";

/** A keyed digest of a text: a whole number of 31 bits. */
export type Digest = (text: string) => number;

/** The fields of a start but for its id. */
const FIELDS = StartRequest.fields.filter((name) => name !== "exec_id") as (keyof StartRequest)[];

/**
 * Digests of the fields of a start, in the order of {@link FIELDS}: they tell whether a retried start asks for the same,
 * and keep nothing of the request, whose arguments and variables may be secrets.
 */
export type Fingerprint = Uint32Array;

/** The fingerprint of a start. What is false, null or empty has a digest of 0. */
export function fingerprintOf(request: StartRequest, digest: Digest): Fingerprint {
  const digests = new Uint32Array(FIELDS.length);
  for (const [index, name] of FIELDS.entries()) {
    const value = request[name];
    if (value === null || value === false) continue;
    // The order of variables does not count.
    const parts = value instanceof Map ? [...value].sort(byName) : value;
    if (Array.isArray(parts) && parts.length === 0) continue;
    digests[index] = digest(JSON.stringify(parts));
  }
  return digests;
}

function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1;
}

/** The names of the fields in which two starts differ, joined by commas; empty for the same start. */
export function difference(first: Fingerprint, second: Fingerprint): string {
  return FIELDS.filter((_, index) => first[index] !== second[index]).join(", ");
}
