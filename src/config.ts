import type { Limits } from "./contract/limits.ts";
import { VERSION } from "./contract/version.ts";
import type { LogLevel } from "./log.ts";
import { formatListen, LIMIT_SETTINGS, type Setting, SETTINGS } from "./settings.ts";

/** An address to listen on. */
export interface ListenAddress {
  /** Host name or address; IPv6 without brackets. */
  readonly hostname: string;
  /** TCP port; 0 lets the system choose. */
  readonly port: number;
}

/** The daemon's settings. */
export interface Config {
  /** Where to listen. */
  readonly listen: ListenAddress;
  /** Where to listen when that is not told in a way that parses. */
  readonly listenFallback: ListenAddress;
  /** Path prefix of the hooks, without a slash at the end. */
  readonly hookPrefix: string;
  /** Name of the version header. */
  readonly versionHeader: string;
  /** Bytes that must stay free; 0 disables the guard. */
  readonly diskReserveBytes: number;
  /** Whether the guest's identity is repaired. */
  readonly identityRepair: boolean;
  /** Directory beneath which the identity is repaired. */
  readonly identityRoot: string;
  /** Variables that children inherit from the daemon. */
  readonly inheritEnv: readonly string[];
  /** Absolute path of the directory for spooled output. */
  readonly spoolDir: string;
  /** Seconds that requests in flight may take at the end. */
  readonly drainSecs: number;
  /** Lowest level that is logged. */
  readonly logLevel: LogLevel;
  /** Limits in force. */
  readonly limits: Limits;
}

/** A configuration and what was wrong with the environment. */
export interface ReadConfig {
  /** The settings in force. */
  readonly config: Config;
  /** One sentence for each value that did not parse. */
  readonly warnings: readonly string[];
}

/**
 * Makes the configuration from the environment. What does not parse keeps its default and gives a
 * warning.
 */
export function readConfig(env: (name: string) => string | undefined): ReadConfig {
  const warnings: string[] = [];

  function read<T>(setting: Setting<T>, instead = setting.fallback): T {
    const given = env(setting.variable);
    // Set to nothing is as good as not set.
    const parsed = given === undefined || given === "" ? undefined : setting.parse(given);
    if (parsed !== undefined) return parsed;
    if (given !== undefined && given !== "") {
      const { variable, form } = setting;
      warnings.push(
        `${variable} must be ${form}; the default stays in force: ${instead || "none"}`,
      );
    }
    const fallback = setting.parse(instead);
    if (fallback === undefined) {
      throw new Error(`Cannot use the default of ${setting.variable}: it does not parse`);
    }
    return fallback;
  }

  const listenFallback = read(SETTINGS.listenFallback);
  const config: Config = {
    listen: read(SETTINGS.listen, formatListen(listenFallback)),
    listenFallback,
    hookPrefix: read(SETTINGS.hookPrefix),
    versionHeader: read(SETTINGS.versionHeader),
    diskReserveBytes: read(SETTINGS.diskReserveBytes),
    identityRepair: read(SETTINGS.identityRepair),
    identityRoot: read(SETTINGS.identityRoot),
    inheritEnv: read(SETTINGS.inheritEnv),
    spoolDir: read(SETTINGS.spoolDir),
    drainSecs: read(SETTINGS.drainSecs),
    logLevel: read(SETTINGS.logLevel),
    limits: {
      max_body_bytes: read(LIMIT_SETTINGS.max_body_bytes),
      max_output_bytes: read(LIMIT_SETTINGS.max_output_bytes),
      max_stdin_write_bytes: read(LIMIT_SETTINGS.max_stdin_write_bytes),
      stdin_write_timeout_secs: read(LIMIT_SETTINGS.stdin_write_timeout_secs),
      max_tar_members: read(LIMIT_SETTINGS.max_tar_members),
      max_tar_bytes: read(LIMIT_SETTINGS.max_tar_bytes),
      stream_replay_bytes: read(LIMIT_SETTINGS.stream_replay_bytes),
      sse_keepalive_secs: read(LIMIT_SETTINGS.sse_keepalive_secs),
      output_linger_secs: read(LIMIT_SETTINGS.output_linger_secs),
      exec_ttl_secs: read(LIMIT_SETTINGS.exec_ttl_secs),
      kill_grace_secs: read(LIMIT_SETTINGS.kill_grace_secs),
      max_drain_bytes: read(LIMIT_SETTINGS.max_drain_bytes),
    },
  };
  return { config, warnings };
}

/** What `guestd --help` prints. */
export function helpText(): string {
  const rows = allSettings().map(({ variable, fallback, purpose }) =>
    `  ${variable}=${fallback}\n      ${purpose}`
  );
  return [
    `guestd ${VERSION}: guest execution daemon`,
    "",
    "Usage: guestd [--version | --help | --print-schema]",
    "",
    "Without an option it serves until it is terminated. Settings come from the environment,",
    "shown here with their defaults; a value that does not parse is logged and the default kept:",
    "",
    ...rows,
    "  GUESTD_LIBRARY=\n      Path of the native library; without it the one beside the bundle.",
    "",
  ].join("\n");
}

function allSettings(): readonly Setting<unknown>[] {
  return [...Object.values(SETTINGS), ...Object.values(LIMIT_SETTINGS)];
}
