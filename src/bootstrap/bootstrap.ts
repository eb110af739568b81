import type { DecodedRunHook } from "../contract/hooks.ts";
import type { Log } from "../log.ts";
import { BaseEnvironment } from "./base_environment.ts";
import { AgentToken, type TokenInstall } from "./token.ts";

/** Token and environment of the run hook, installed all at once and never changed afterwards. */
export class Bootstrap {
  /** The bearer token. */
  readonly token: AgentToken = new AgentToken();
  /** The base environment of all execs. */
  readonly environment: BaseEnvironment = new BaseEnvironment();
  readonly #log: Log;

  /** Makes the state before the run hook. */
  constructor(log: Log) {
    this.#log = log;
  }

  /** Installs a run hook's content with the first token; any later hook changes nothing. */
  install(hook: DecodedRunHook): TokenInstall {
    const outcome = this.token.install(hook.token);
    if (outcome === "installed") {
      for (const name of this.environment.install(hook.env)) {
        this.#log.warn("dropped a variable of the run hook that no environment can hold", { name });
      }
    }
    return outcome;
  }
}
