import { Mismatch } from "./schema.ts";

/**
 * Strict base64: standard alphabet, padded, no white space. Throws {@link Mismatch} naming `field`.
 */
export function decodeBase64(encoded: string, field: string): Uint8Array<ArrayBuffer> {
  // V8's strict decoder accepts white space, so it is looked for here.
  if (!/[\t\n\f\r ]/.test(encoded)) {
    try {
      return Uint8Array.fromBase64(encoded, { lastChunkHandling: "strict" });
    } catch {
      // Falls through to the sentence that quotes nothing.
    }
  }
  throw new Mismatch(`${field} must be padded base64 of the standard alphabet`);
}
