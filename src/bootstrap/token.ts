/** What an attempt to install a token led to. */
export type TokenInstall = "installed" | "replayed" | "refused";

/** The per-VM bearer token: installed once, held as bytes in memory, compared in constant time. */
export class AgentToken {
  #bytes: Uint8Array | undefined;

  /** Whether a token is installed. */
  get installed(): boolean {
    return this.#bytes !== undefined;
  }

  /** Installs the first token, recognises the same one again, and refuses any other. */
  install(token: string): TokenInstall {
    const bytes = new TextEncoder().encode(token);
    if (this.#bytes === undefined) {
      this.#bytes = bytes;
      return "installed";
    }
    return equalInConstantTime(this.#bytes, bytes) ? "replayed" : "refused";
  }

  /** Whether `presented` is the installed token; false when none is. */
  matches(presented: Uint8Array): boolean {
    return this.#bytes !== undefined && equalInConstantTime(this.#bytes, presented);
  }
}

/**
 * Compares without leaving early, so that the time tells nothing but the lengths. node:crypto has
 * the same, for 14 ms and 9 MB at start.
 */
function equalInConstantTime(secret: Uint8Array, presented: Uint8Array): boolean {
  if (secret.length !== presented.length) return false;
  let difference = 0;
  for (let index = 0; index < secret.length; index++) {
    difference |= (secret[index] ?? 0) ^ (presented[index] ?? 0);
  }
  return difference === 0;
}
