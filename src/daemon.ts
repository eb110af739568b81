import { Bootstrap } from "./bootstrap/bootstrap.ts";
import { HookLog } from "./bootstrap/hook_log.ts";
import type { Config } from "./config.ts";
import { PasswdFile } from "./exec/passwd.ts";
import { Registry } from "./exec/registry.ts";
import { Files } from "./files/files.ts";
import { DiskGauge } from "./guest/disk.ts";
import { createRouter, type Router } from "./http/router.ts";
import { execRoutes } from "./http/routes/exec.ts";
import { fileRoutes } from "./http/routes/files.ts";
import { hookRoutes } from "./http/routes/hooks.ts";
import { pendingRoutes } from "./http/routes/pending.ts";
import { StreamRoutes } from "./http/routes/stream.ts";
import { systemRoutes } from "./http/routes/system.ts";
import type { Log } from "./log.ts";
import { Core } from "./native/core.ts";

/** From SIGTERM to SIGKILL for what still runs at the end, in milliseconds. */
const END_GRACE_MS = 2000;
/** How long the end waits for exits to be published and for answers to be sent, in milliseconds. */
const FLUSH_MS = 1000;
/** The file system that health reports. */
const DISK_PATH = "/";

/** What the daemon is made with. */
export interface DaemonOptions {
  /** Settings in force. */
  readonly config: Config;
  /** Where the native library lies. */
  readonly library: string | URL;
  /** The log. */
  readonly log: Log;
  /** Reads the daemon's own environment. */
  readonly env: (name: string) => string | undefined;
}

/**
 * The daemon: every room, and the order in which they end.
 *
 * Invariant: `#ending` is set once the shutdown began, and there is one shutdown however often and
 * by whom it is asked for.
 */
export class Daemon {
  readonly #config: Config;
  readonly #log: Log;
  readonly #core: Core;
  readonly #registry: Registry;
  readonly #streams: StreamRoutes;
  readonly #files: Files;
  readonly #router: Router;
  readonly #ended = Promise.withResolvers<void>();
  #server: Deno.HttpServer<Deno.NetAddr> | undefined;
  #ending = false;

  /** Opens the core and furnishes the rooms. Throws when the core cannot be opened. */
  constructor({ config, library, log, env }: DaemonOptions) {
    const { limits, hookPrefix, versionHeader } = config;
    this.#config = config;
    this.#log = log;
    this.#core = Core.open(library, {
      captureBytes: limits.max_output_bytes,
      windowBytes: limits.stream_replay_bytes,
      lingerSecs: limits.output_linger_secs,
      graceSecs: limits.kill_grace_secs,
      stdinSecs: limits.stdin_write_timeout_secs,
    });
    const bootstrap = new Bootstrap(log);
    const hookLog = new HookLog();
    const registry = this.#registry = new Registry({
      core: this.#core,
      sources: {
        inherit: config.inheritEnv,
        daemonEnv: env,
        passwd: new PasswdFile(),
        ownUid: Deno.uid() ?? 0,
        baseEnvironment: () => bootstrap.environment.entries,
      },
      ttlSecs: limits.exec_ttl_secs,
      log,
    });
    this.#streams = new StreamRoutes({ registry, keepaliveSecs: limits.sse_keepalive_secs });
    const gauge = new DiskGauge(this.#core, DISK_PATH, config.diskReserveBytes);
    this.#files = new Files({
      core: this.#core,
      limits,
      spoolDir: config.spoolDir,
      reserveBytes: config.diskReserveBytes,
      log,
    });
    this.#router = createRouter({
      limits,
      hookPrefix,
      versionHeader,
      token: bootstrap.token,
      log,
      draining: () => this.#ending,
      handlers: {
        ...hookRoutes({ bootstrap, hookLog, log, terminate: () => this.terminate("hook") }),
        ...execRoutes({ registry, limits }),
        exec_stream: this.#streams.exec_stream,
        ...fileRoutes({ files: this.#files, maxBodyBytes: limits.max_body_bytes }),
        ...systemRoutes({
          document: { limits, hookPrefix, versionHeader },
          bootstrapped: () => bootstrap.token.installed,
          disk: () => gauge.measure(),
          execs: () => registry.count(),
          identity: () => ({ degraded: false, repaired: false }),
          hooks: hookLog,
          procs: () => registry.procs(),
          log,
        }),
        ...pendingRoutes(),
      },
    });
  }

  /** Listens; throws when the address cannot be had. */
  listen(): void {
    const { hostname, port } = this.#config.listen;
    const { serve, onError } = this.#router;
    this.#server = Deno.serve({
      hostname,
      port,
      onError,
      onListen: (address) => {
        this.#log.info("listening", { hostname: address.hostname, port: address.port });
      },
    }, serve);
  }

  /** Ends once the daemon has shut down. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Begins the shutdown; asked again by a signal, it ends at once. Never throws. */
  terminate(by: "hook" | "SIGTERM" | "SIGINT"): void {
    if (!this.#ending) {
      this.#ending = true;
      this.#log.info("shutting down", { by });
      this.#shutDown().finally(() => this.#ended.resolve());
    } else if (by !== "hook") {
      this.#log.warn("shutting down at once", { by });
      this.#core.killAll().finally(() => this.#ended.resolve());
    }
  }

  /** Writes everything to disk and powers the guest off: for a daemon that is its init. */
  powerOff(): void {
    this.#core.powerOff();
  }

  async #shutDown(): Promise<void> {
    try {
      this.#registry.drain();
      this.#core.drain();
      const served = this.#server?.shutdown() ?? Promise.resolve();
      await within(this.#config.drainSecs * 1000, served);
      await this.#core.endAll(END_GRACE_MS);
      await this.#registry.settled(FLUSH_MS);
      // Streams of execs that published end by themselves, with their exit; give them the time.
      await within(FLUSH_MS, served);
      this.#streams.close();
      this.#files.transfers.close();
      await within(FLUSH_MS, served);
      this.#registry[Symbol.dispose]();
      await this.#core.close();
    } catch (error) {
      const kind = error instanceof Error ? error.message : typeof error;
      this.#log.error("the shutdown failed", { kind });
    }
  }
}

/** Waits for `pending`, at most `ms`. */
async function within(ms: number, pending: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  await Promise.race([pending, promise]);
  clearTimeout(timer);
}
