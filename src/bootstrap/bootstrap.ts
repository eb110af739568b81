import type { DecodedRunHook } from "../contract/hooks.ts";
import type { Log } from "../log.ts";

/** What an attempt to install a token led to. */
export type TokenInstall = "installed" | "replayed" | "refused";

/** Token and environment of the run hook, installed all at once and never changed afterwards. */
export class Bootstrap {
  /** The bearer token. */
  readonly token: AgentToken = new AgentToken();
  #environment: ReadonlyMap<string, string> = new Map();
  readonly #log: Log;

  /** Makes the state before the run hook. */
  constructor(log: Log) {
    this.#log = log;
  }

  /** The base environment of all execs: entries that execve can carry. */
  get environment(): ReadonlyMap<string, string> {
    return this.#environment;
  }

  /** Installs a run hook's content with the first token; any later hook changes nothing. */
  install({ token, env }: DecodedRunHook): TokenInstall {
    const outcome = this.token.install(token);
    if (outcome === "installed") {
      const entries = [...env];
      this.#environment = new Map(entries.filter(isCarried));
      for (const [name] of entries.filter((entry) => !isCarried(entry))) {
        this.#log.warn("dropped a variable of the run hook that no environment can hold", { name });
      }
    }
    return outcome;
  }
}

function isCarried([name, value]: readonly [string, string]): boolean {
  const texts = [name, value];
  return name !== "" && !name.includes("=") &&
    texts.every((text) => !text.includes("\0") && text.isWellFormed());
}

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
