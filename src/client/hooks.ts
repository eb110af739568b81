/** The platform's lifecycle hooks, which need no token. */

import type { HookName, RunHook } from "../contract/hooks.ts";
import type { Identity } from "./identity.ts";
import type { Requests } from "./requests.ts";

/** What the run hook brings to a guest, once in its life. */
export interface RunOptions {
  /** The bearer token of all later requests. */
  readonly token: string;
  /** Variables of every later command. */
  readonly env?: Readonly<Record<string, string>>;
  /** Keys for tunnels that prove both ends; see `Identity.generate`. */
  readonly identity?: Identity;
  /** Ends the request. */
  readonly signal?: AbortSignal;
}

/** The hooks of one guest. A request that asks for a hook's effect may be repeated: each is the same twice. */
export class Hooks {
  readonly #requests: Requests;
  readonly #prefix: string;

  /** Made by a guest. */
  constructor(requests: Requests, prefix: string) {
    this.#requests = requests;
    this.#prefix = prefix;
  }

  /**
   * Gives the guest its token, environment and identity. The same token again changes nothing; another one is `Refused`
   * with 409, a payload that the guest cannot take with 400. Together they may have 4096 bytes of JSON.
   */
  async run({ token, env = {}, identity, signal }: RunOptions): Promise<void> {
    const payload = {
      agent_token: token,
      env,
      ...identity?.payload(),
    } satisfies Partial<Record<keyof RunHook, unknown>>;
    await this.#post("run", signal, JSON.stringify({ runHookPayload: JSON.stringify(payload) }));
  }

  /** Asks a guest that is being built whether its daemon is there. */
  async ready(signal?: AbortSignal): Promise<void> {
    await this.#post("ready", signal);
  }

  /** The same for one that is to be validated. */
  async validate(signal?: AbortSignal): Promise<void> {
    await this.#post("validate", signal);
  }

  /** Announces a freeze: the guest's clock may then jump without ending commands for it. */
  async suspend(signal?: AbortSignal): Promise<void> {
    await this.#post("suspend", signal);
  }

  /** Tells of the thaw. */
  async resume(signal?: AbortSignal): Promise<void> {
    await this.#post("resume", signal);
  }

  /** Ends the daemon: requests in flight are finished first, commands then get SIGTERM. */
  async terminate(signal?: AbortSignal): Promise<void> {
    await this.#post("terminate", signal);
  }

  async #post(hook: HookName, signal: AbortSignal | undefined, json?: string): Promise<void> {
    const body = json === undefined ? undefined : new TextEncoder().encode(json);
    const path = `${this.#prefix}/${hook}`;
    const what = `post the ${hook} hook`;
    await this.#requests.done({ what, method: "POST", path, body, repeatable: true, signal });
  }
}
