import type { QuerySource } from "../contract/object.ts";
import { Mismatch } from "../contract/schema.ts";

/**
 * A raw query as `application/x-www-form-urlencoded`: `+` is a space, the first of repeated names
 * counts, unknown names are ignored whatever they hold.
 */
export class Query implements QuerySource {
  readonly #raw: string;

  /** Wraps the raw query, without its question mark. */
  constructor(raw: string) {
    this.#raw = raw;
  }

  /**
   * The first value of `name`; throws {@link Mismatch} when its escapes are malformed or not UTF-8.
   */
  text(name: string): string | undefined {
    for (const pair of this.#raw.split("&")) {
      const equals = pair.indexOf("=");
      if (pair === "" || decode(equals === -1 ? pair : pair.slice(0, equals)) !== name) continue;
      const value = decode(equals === -1 ? "" : pair.slice(equals + 1));
      if (value === undefined) {
        throw new Mismatch(`query parameter ${name} must be percent-encoded UTF-8`);
      }
      return value;
    }
    return undefined;
  }
}

function decode(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}
