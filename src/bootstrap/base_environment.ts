/**
 * The environment that the run hook gives to every later exec. Every entry is one that execve can
 * carry.
 */
export class BaseEnvironment {
  #entries: ReadonlyMap<string, string> = new Map();

  /** The entries in force. */
  get entries(): ReadonlyMap<string, string> {
    return this.#entries;
  }

  /** Takes over what execve can carry and returns the names of the rest. */
  install(env: ReadonlyMap<string, string>): readonly string[] {
    const kept = new Map<string, string>();
    const dropped: string[] = [];
    for (const [name, value] of env) {
      if (name !== "" && !name.includes("=") && isCString(name) && isCString(value)) {
        kept.set(name, value);
      } else dropped.push(name);
    }
    this.#entries = kept;
    return dropped;
  }
}

function isCString(text: string): boolean {
  return !text.includes("\0") && text.isWellFormed();
}
