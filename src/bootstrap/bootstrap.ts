import type { DecodedRunHook, Identity } from "../contract/hooks.ts";
import type { Log } from "../log.ts";
import { BaseEnvironment } from "./base_environment.ts";
import { AgentToken, type TokenInstall } from "./token.ts";

/** What the run hook brings, installed all at once and never changed afterwards. */
export class Bootstrap {
  /** The bearer token. */
  readonly token: AgentToken = new AgentToken();
  /** The base environment of all execs. */
  readonly environment: BaseEnvironment = new BaseEnvironment();
  readonly #log: Log;
  #identity: Identity | null = null;

  /** Makes the state before the run hook. */
  constructor(log: Log) {
    this.#log = log;
  }

  /** The keys of the tunnel, when the launch brought them: once, for they are not kept here. */
  takeIdentity(): Identity | null {
    const identity = this.#identity;
    this.#identity = null;
    return identity;
  }

  /** Installs a run hook's content with the first token; any later hook changes nothing. */
  install(hook: DecodedRunHook): TokenInstall {
    const outcome = this.token.install(hook.token);
    if (outcome === "installed") {
      for (const name of this.environment.install(hook.env)) {
        this.#log.warn("dropped a variable of the run hook that no environment can hold", { name });
      }
      this.#identity = hook.identity;
    }
    return outcome;
  }
}
