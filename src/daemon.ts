import { Bootstrap } from "./bootstrap/bootstrap.ts";
import { HookLog } from "./bootstrap/hook_log.ts";
import type { Config } from "./config.ts";
import type { DecodedRunHook } from "./contract/hooks.ts";
import { PasswdFile } from "./exec/passwd.ts";
import { Registry } from "./exec/registry.ts";
import { Files } from "./files/files.ts";
import { DiskGauge } from "./guest/disk.ts";
import { IdentityRepair } from "./guest/identity.ts";
import { collectNow, Quiet } from "./guest/quiet.ts";
import { Bodies } from "./http/body.ts";
import { ConnectionLimits } from "./http/connection_limits.ts";
import { Listener } from "./http/listener.ts";
import { createRouter, type Router } from "./http/router.ts";
import { execRoutes } from "./http/routes/exec.ts";
import { fileRoutes } from "./http/routes/files.ts";
import { hookRoutes } from "./http/routes/hooks.ts";
import { StreamRoutes } from "./http/routes/stream.ts";
import { systemRoutes } from "./http/routes/system.ts";
import { tunnelRoutes } from "./http/routes/tunnel.ts";
import type { Log } from "./log.ts";
import { Core } from "./native/core.ts";
import { addressText, SETTINGS } from "./settings.ts";
import { Tunnels } from "./tunnel/tunnels.ts";
import { within } from "./within.ts";

/** Number of the signal. */
const SIGHUP = 1;
/** From SIGTERM to SIGKILL for what still runs at the end, in milliseconds. */
const END_GRACE_MS = 2000;
/** How long the end waits for exits to be published and for answers to be sent, in milliseconds. */
const FLUSH_MS = 1000;
/** How long it waits for connections that have nothing to say, in milliseconds. */
const LAST_MS = 100;
/** Who the guest's users are. */
const PASSWD = "/etc/passwd";
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
 * by whom it is asked for; `#signals` counts the signals among those who asked.
 */
export class Daemon {
  readonly #drainMs: number;
  readonly #log: Log;
  readonly #core: Core;
  readonly #registry: Registry;
  readonly #streams: StreamRoutes;
  readonly #files: Files;
  readonly #router: Router;
  readonly #tunnels: Tunnels;
  readonly #identity: IdentityRepair;
  readonly #quiet: Quiet;
  readonly #connections: ConnectionLimits;
  readonly #listeners: readonly Listener[];
  /** Those that are tried again until one address can be had, for none could be had at the start. */
  #waiting: readonly Listener[] = [];
  readonly #ended = Promise.withResolvers<void>();
  #manager: string;
  #ending = false;
  #signals = 0;

  /** Opens the core and furnishes the rooms. Throws when the core cannot be opened. */
  constructor({ config, library, log, env }: DaemonOptions) {
    const { limits, hookPrefix, versionHeader } = config;
    this.#drainMs = config.drainSecs * 1000;
    this.#manager = env("NOTIFY_SOCKET") ?? "";
    this.#log = log;
    this.#core = Core.open(library, {
      captureBytes: limits.max_output_bytes,
      windowBytes: limits.stream_replay_bytes,
      lingerSecs: limits.output_linger_secs,
      graceSecs: limits.kill_grace_secs,
      stdinSecs: limits.stdin_write_timeout_secs,
      spoolDir: config.spoolDir,
      onSpoolFailed: (cause) => {
        log.warn("captured output cannot be spooled and stays in memory", {
          directory: config.spoolDir,
          cause,
        });
      },
    });
    const bootstrap = new Bootstrap(log);
    const hookLog = new HookLog();
    const registry = this.#registry = new Registry({
      core: this.#core,
      sources: {
        inherit: config.inheritEnv,
        daemonEnv: env,
        passwd: new PasswdFile(PASSWD),
        ownUid: Deno.uid() ?? 0,
        base: bootstrap,
      },
      ttlSecs: limits.exec_ttl_secs,
      log,
    });
    this.#streams = new StreamRoutes({ registry, keepaliveSecs: limits.sse_keepalive_secs });
    this.#identity = new IdentityRepair({
      core: this.#core,
      enabled: config.identityRepair,
      root: config.identityRoot,
      log,
    });
    const tunnels = this.#tunnels = new Tunnels({
      core: this.#core,
      localPort: () => {
        const ports = this.#listeners.flatMap(({ address }) =>
          "hostname" in address ? [address.port] : []
        );
        return ports.length === 1 ? ports[0] ?? 0 : 0;
      },
      log,
    });
    const [requestMs, idleMs] = [1000 * config.requestTimeoutSecs, 1000 * config.idleTimeoutSecs];
    this.#files = new Files({
      core: this.#core,
      limits,
      spoolDir: config.spoolDir,
      reserveBytes: config.diskReserveBytes,
      idleMs,
      log,
    });
    this.#quiet = new Quiet({
      ownBytes: () => this.#core.ownBytes,
      trim: () => {
        this.#core.trim();
        log.debug("memory was given back", { own_bytes: this.#core.ownBytes });
      },
    });
    const { maxConnections } = config;
    this.#connections = new ConnectionLimits(
      this.#core,
      { maxConnections, requestMs, idleMs },
      log,
      () => this.#quiet.note(),
    );
    const bodies = new Bodies(limits, requestMs, collectNow);
    this.#router = createRouter({
      limits,
      hookPrefix,
      versionHeader,
      token: bootstrap.token,
      log,
      traffic: this.#quiet,
      connections: this.#connections,
      handlers: {
        ...hookRoutes({
          bootstrap,
          hookLog,
          log,
          bodies,
          onInstalled: (hook) => this.#installed(hook),
          onSuspend: () => this.#core.suspended(),
          onResume: () => this.#core.resumed(),
          terminate: () => this.terminate("hook"),
        }),
        ...execRoutes({ registry, limits, log, bodies }),
        exec_stream: this.#streams.exec_stream,
        ...fileRoutes({
          files: this.#files,
          maxBodyBytes: limits.max_body_bytes,
          idleMs,
        }),
        ...systemRoutes({
          document: { limits, hookPrefix, versionHeader },
          token: bootstrap.token,
          gauge: new DiskGauge(this.#core, DISK_PATH, config.diskReserveBytes),
          registry,
          identity: this.#identity,
          hooks: hookLog,
          log,
        }),
        ...tunnelRoutes(tunnels),
      },
    });
    this.#listeners = config.listen.map((address) => {
      const listener = new Listener(address, this.#router, log, (address) => {
        this.#connections.follow(address);
        this.#tellManager();
        this.#giveUpOthers(listener);
      });
      return listener;
    });
  }

  /** Once one address can be had, those that could not be had before are not tried any more. */
  #giveUpOthers(served: Listener): void {
    for (const listener of this.#waiting.filter((other) => other !== served && !other.listens)) {
      this.#log.warn("one address is not served, the others are", {
        cause: `Cannot listen on ${addressText(listener.address)}`,
      });
      void listener.close();
    }
    this.#waiting = [];
  }

  /**
   * Repairs the identity, if that is switched on, and listens. Of several addresses those that can be had are served.
   * Where none can be had it rejects, unless there is a vsock address among them, whose device may come later.
   */
  async listen(): Promise<void> {
    // The look at the spool is not waited for, because its disk may hang.
    void this.#files.checkSpool();
    await this.#identity.repair();
    const failed = this.#listeners.flatMap((listener) => {
      try {
        listener.listen();
        return [];
      } catch (error) {
        const cause = error instanceof Error ? error.message : typeof error;
        const address = addressText(listener.address);
        const { variable } = SETTINGS.listen;
        return [{ listener, cause: `Cannot listen on ${address} (${variable}): ${cause}` }];
      }
    });
    const served = this.#listeners.length - failed.length;
    const patient = this.#listeners.some(({ address }) => "cid" in address);
    if (served === 0 && !patient) throw new Error(failed.map(({ cause }) => cause).join("; "));
    for (const { listener, cause } of failed) {
      if (served > 0) {
        this.#log.warn("one address is not served, the others are", { cause });
      } else {
        this.#log.error("no address can be had: trying again", { cause });
        this.#waiting = [...this.#waiting, listener];
        listener.listenLater();
      }
    }
  }

  /** A service manager that asked for it, as systemd does by NOTIFY_SOCKET, is told that the daemon listens. */
  #tellManager(): void {
    const manager = this.#manager;
    if (manager === "") return;
    this.#manager = "";
    try {
      this.#core.ready(manager);
    } catch (error) {
      const cause = error instanceof Error ? error.message : typeof error;
      this.#log.warn("the service manager was not told that the daemon listens", { cause });
    }
  }

  /** The keys count from the turn in which the token does; the repair may take its time. */
  async #installed({ token, identity }: DecodedRunHook): Promise<void> {
    const name = new TextEncoder().encode(token);
    const seed = identity?.seed ?? new Uint8Array();
    const secret = new Uint8Array(name.length + seed.length);
    secret.set(name);
    secret.set(seed, name.length);
    try {
      if (identity !== null) this.#tunnels.installIdentity(identity);
    } finally {
      // Wiped by the repair, also where the keys could not be installed.
      await this.#identity.repair(secret);
    }
  }

  /** Ends once the daemon has shut down. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Begins the shutdown; a second signal ends it at once. Never throws. */
  terminate(by: "hook" | Deno.Signal): void {
    if (by !== "hook") this.#signals++;
    if (!this.#ending) {
      this.#ending = true;
      this.#log.info("shutting down", { by });
      this.#shutDown().finally(() => this.#ended.resolve());
    } else if (this.#signals > 1) {
      this.#log.warn("shutting down at once", { by });
      this.#core.endAll(0).finally(() => this.#ended.resolve());
    } else {
      this.#log.info("already shutting down", { by });
    }
  }

  /** The signals that end it: a hang-up too, unless it was started to outlive its terminal. */
  get signals(): readonly Deno.Signal[] {
    const hangUp: readonly Deno.Signal[] = this.#core.isIgnored(SIGHUP) ? [] : ["SIGHUP"];
    return ["SIGTERM", "SIGINT", "SIGQUIT", ...hangUp];
  }

  /**
   * Writes everything to disk and powers the guest off: for a daemon that is its init. Returns where that is not
   * allowed, as in a container, which ends with its first process all the same.
   */
  powerOff(): void {
    try {
      this.#core.powerOff();
    } catch (error) {
      this.#log.warn("the guest was not powered off", {
        cause: error instanceof Error ? error.message : typeof error,
      });
    }
  }

  async #shutDown(): Promise<void> {
    try {
      this.#router.drain();
      this.#registry.drain();
      this.#core.drain();
      // Deno's server ends its WebSockets by itself when it stops accepting.
      const tunnels = this.#tunnels.close();
      // Deno's graceful end makes the bodies unreadable that are still arriving (denoland/deno#36809).
      const closed = within(this.#drainMs, this.#router.bodiesRead(), undefined)
        .then(() => Promise.all(this.#listeners.map((listener) => listener.close())));
      await within(this.#drainMs, this.#router.idle(), undefined);
      this.#registry.close();
      await within(END_GRACE_MS + FLUSH_MS, this.#core.endAll(END_GRACE_MS), undefined);
      await this.#registry.settled(FLUSH_MS);
      // Streams of execs that published end by themselves, with their exit; give them the time.
      await within(FLUSH_MS, this.#router.idle(), undefined);
      this.#streams.close();
      this.#files.close();
      await within(FLUSH_MS, tunnels, undefined);
      await within(FLUSH_MS, this.#router.idle(), undefined);
      // Connections without a request end too, but for those that will not: half-sent ones.
      await within(LAST_MS, closed, undefined);
      this.#quiet[Symbol.dispose]();
      this.#connections[Symbol.dispose]();
      this.#registry[Symbol.dispose]();
      await this.#core.close();
    } catch (error) {
      const kind = error instanceof Error ? error.message : typeof error;
      this.#log.error("the shutdown failed", { kind });
    }
  }
}
