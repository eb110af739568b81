/** A router behind a real `Deno.serve` on a free port of 127.0.0.1, for tests that speak to it by bare sockets. */

import { Bootstrap } from "../../src/bootstrap/bootstrap.ts";
import { DEFAULT_LIMITS, type Limits } from "../../src/contract/limits.ts";
import { ROUTE_NAMES } from "../../src/contract/rows.ts";
import { createRouter, type Handler, type Handlers, type Router } from "../../src/http/router.ts";
import { text } from "../../src/http/respond.ts";
import { Log } from "../../src/log.ts";

/** The hook prefix of every fixture. */
export const PREFIX = "/platform/runtime/v1";

/** The token that a fixture installs unless told otherwise. */
export const TOKEN = "tok-0123456789";

/** The header that opens the gate. */
export const AUTHORIZED: readonly [string, string] = ["Authorization", `Bearer ${TOKEN}`];

/** What a fixture is made of. */
export interface FixtureOptions {
  readonly handlers?: Partial<Handlers>;
  readonly limits?: Partial<Limits>;
  /** Token to install; null leaves the gate closed. */
  readonly token?: string | null;
  readonly versionHeader?: string;
}

/** A log that is kept, one parsed line an entry. */
export class KeptLog {
  readonly lines: Record<string, unknown>[] = [];
  readonly log: Log = new Log("debug", (line) => {
    this.lines.push(JSON.parse(line));
  });
}

/** Handlers that answer with the name of the route and the id they were given. */
export function echoHandlers(overrides: Partial<Handlers> = {}): Handlers {
  const echo: Handler = ({ row, id }) => text(200, `${row.name} ${JSON.stringify(id)}`);
  return {
    ...Object.fromEntries(ROUTE_NAMES.map((name) => [name, echo])) as unknown as Handlers,
    ...overrides,
  };
}

/** A served router. */
export class RouterFixture implements AsyncDisposable {
  readonly kept: KeptLog = new KeptLog();
  readonly bootstrap: Bootstrap = new Bootstrap(this.kept.log);
  readonly router: Router;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor(options: FixtureOptions = {}) {
    const { token = TOKEN, versionHeader = "service-version" } = options;
    if (token !== null) this.bootstrap.token.install(token);
    this.router = createRouter({
      limits: { ...DEFAULT_LIMITS, ...options.limits },
      hookPrefix: PREFIX,
      versionHeader,
      handlers: echoHandlers(options.handlers),
      token: this.bootstrap.token,
      log: this.kept.log,
    });
    this.#server = Deno.serve({
      hostname: "127.0.0.1",
      port: 0,
      onListen: () => {},
      onError: this.router.onError,
    }, this.router.serve);
  }

  /** Where it listens. */
  get port(): number {
    return this.#server.addr.port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}
