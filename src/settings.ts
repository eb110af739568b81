import type { Config, ListenAddress } from "./config.ts";
import { DEFAULT_LIMITS, type Limits } from "./contract/limits.ts";
import { LOG_LEVELS, type LogLevel } from "./log.ts";

/** One variable of the environment. */
export interface Setting<T> {
  /** Its name. */
  readonly variable: string;
  /** The default, as one would write it; it parses. */
  readonly fallback: string;
  /** What a value has to be, as the end of "must be". */
  readonly form: string;
  /** What it is for, in one line. */
  readonly purpose: string;
  /** What `text` stands for; undefined when it does not parse. */
  readonly parse: (text: string) => T | undefined;
}

/** A setting for each field of the configuration but the limits. */
export type Settings = { readonly [K in keyof Omit<Config, "limits">]: Setting<Config[K]> };

/** A setting for each limit. */
export type LimitSettings = { readonly [K in keyof Limits]: Setting<Limits[K]> };

const GIB = 1024 ** 3;
/** What is held in memory, and handed to the native core as a 32-bit length. */
const MAX_HELD_BYTES = GIB / 4;
/** Timers of JavaScript overflow beyond 2^31 milliseconds. */
const MAX_SECS = 2_000_000;
/** Where no time at all would make no sense. */
const SHORTEST_SECS = 0.001;

/** All settings but the limits. */
export const SETTINGS: Settings = {
  listenFallback: {
    variable: "GUESTD_LISTEN_FALLBACK",
    fallback: "0.0.0.0:9000",
    form: "host:port, [ipv6]:port, :port or port",
    purpose: "Address where `GUESTD_LISTEN` is not set or does not parse.",
    parse: parseListen,
  },
  listen: {
    variable: "GUESTD_LISTEN",
    fallback: "0.0.0.0:9000",
    form: "host:port, [ipv6]:port, :port or port",
    purpose: "Address to listen on; port 0 lets the system choose.",
    parse: parseListen,
  },
  hookPrefix: {
    variable: "GUESTD_HOOK_PREFIX",
    fallback: "/platform/runtime/v1",
    form: "an absolute path of plain segments",
    purpose: "Path prefix of the platform's lifecycle hooks.",
    parse: parsePrefix,
  },
  versionHeader: {
    variable: "GUESTD_VERSION_HEADER",
    fallback: "service-version",
    form: "a header name that means nothing else",
    purpose: "Name of the header that carries the daemon's version.",
    parse: parseHeaderName,
  },
  diskReserveBytes: bytes(
    "GUESTD_DISK_RESERVE_BYTES",
    GIB / 4,
    [0, Number.MAX_SAFE_INTEGER],
    "Bytes that must stay free on a disk that is written to; 0 disables the guard.",
  ),
  identityRepair: {
    variable: "GUESTD_IDENTITY_REPAIR",
    fallback: "off",
    form: "on or off",
    purpose: "Whether machine id, boot id and random seed are made anew; for images only.",
    parse: (text) => text === "on" ? true : text === "off" ? false : undefined,
  },
  identityRoot: {
    variable: "GUESTD_IDENTITY_ROOT",
    fallback: "/",
    form: "an absolute path",
    purpose: "Directory beneath which the identity is repaired; another than / is for tests.",
    parse: parseAbsolute,
  },
  inheritEnv: {
    variable: "GUESTD_INHERIT_ENV",
    fallback: "",
    form: "names joined by commas",
    purpose: "Names, joined by commas, of the daemon's own variables that commands inherit.",
    parse: parseNames,
  },
  spoolDir: {
    variable: "GUESTD_SPOOL_DIR",
    fallback: "/var/tmp",
    form: "an absolute path",
    purpose: "Directory for unacked output beyond 64 MiB in all.",
    parse: parseAbsolute,
  },
  drainSecs: seconds(
    "GUESTD_DRAIN_SECS",
    5,
    0,
    "Seconds that requests in flight may take at the end.",
  ),
  logLevel: {
    variable: "GUESTD_LOG",
    fallback: "info",
    form: `one of ${LOG_LEVELS.join(", ")}`,
    purpose: `Lowest level that is logged: ${LOG_LEVELS.join(", ")}.`,
    parse: (text): LogLevel | undefined => LOG_LEVELS.find((level) => level === text),
  },
};

/** All limits, in the order of the protocol. */
export const LIMIT_SETTINGS: LimitSettings = {
  max_body_bytes: limitBytes(
    "max_body_bytes",
    [1, Number.MAX_SAFE_INTEGER],
    "Bytes of a request body: start, file write, tar upload.",
  ),
  max_output_bytes: limitBytes(
    "max_output_bytes",
    [1, MAX_HELD_BYTES],
    "Bytes captured of each output stream of a command.",
  ),
  max_stdin_write_bytes: limitBytes(
    "max_stdin_write_bytes",
    [1, MAX_HELD_BYTES],
    "Bytes of one decoded stdin write.",
  ),
  stdin_write_timeout_secs: limitSeconds(
    "stdin_write_timeout_secs",
    SHORTEST_SECS,
    "Seconds that a stdin write may wait for the child to read.",
  ),
  max_tar_members: limitBytes("max_tar_members", [1, 0xffff_ffff], "Members of a tar archive."),
  max_tar_bytes: limitBytes(
    "max_tar_bytes",
    [1, Number.MAX_SAFE_INTEGER],
    "Bytes of a tar archive.",
  ),
  stream_replay_bytes: limitBytes(
    "stream_replay_bytes",
    [1, MAX_HELD_BYTES],
    "Bytes of output that a stream can replay.",
  ),
  sse_keepalive_secs: limitSeconds(
    "sse_keepalive_secs",
    SHORTEST_SECS,
    "Seconds without an event after which a stream sends a keepalive.",
  ),
  output_linger_secs: limitSeconds(
    "output_linger_secs",
    0,
    "Seconds that output pipes may stay open after a command's exit.",
  ),
  exec_ttl_secs: limitSeconds("exec_ttl_secs", 0, "Seconds that an acked exec is kept."),
  kill_grace_secs: limitSeconds("kill_grace_secs", 0, "Seconds between SIGTERM and SIGKILL."),
  max_drain_bytes: limitBytes(
    "max_drain_bytes",
    [0, Number.MAX_SAFE_INTEGER],
    "Bytes that a refused request may still send for its connection to be kept.",
  ),
};

function limitBytes(
  key: keyof Limits,
  range: readonly [number, number],
  purpose: string,
): Setting<number> {
  return bytes(variableOf(key), DEFAULT_LIMITS[key], range, purpose);
}

function limitSeconds(key: keyof Limits, minimum: number, purpose: string): Setting<number> {
  return seconds(variableOf(key), DEFAULT_LIMITS[key], minimum, purpose);
}

function variableOf(key: keyof Limits): string {
  return `GUESTD_${key.toUpperCase()}`;
}

function bytes(
  variable: string,
  fallback: number,
  [minimum, maximum]: readonly [number, number],
  purpose: string,
): Setting<number> {
  return {
    variable,
    fallback: `${fallback}`,
    form: `an integer from ${minimum} to ${maximum}`,
    purpose,
    parse(text: string): number | undefined {
      if (!/^[0-9]{1,16}$/.test(text)) return undefined;
      const value = Number(text);
      return value >= minimum && value <= maximum ? value : undefined;
    },
  };
}

function seconds(
  variable: string,
  fallback: number,
  minimum: number,
  purpose: string,
): Setting<number> {
  return {
    variable,
    fallback: `${fallback}`,
    form: `a number of seconds from ${minimum} to ${MAX_SECS}`,
    purpose,
    parse(text: string): number | undefined {
      if (!/^[0-9]{1,10}(?:\.[0-9]{1,9})?$/.test(text)) return undefined;
      const value = Number(text);
      return value >= minimum && value <= MAX_SECS ? value : undefined;
    },
  };
}

function parseAbsolute(text: string): string | undefined {
  return text.startsWith("/") && !text.includes("\0") ? text : undefined;
}

function parseListen(text: string): ListenAddress | undefined {
  const match = /^(?:(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._]*):)?([0-9]{1,5})$/.exec(text);
  if (match === null || Number(match[2]) > 65535) return undefined;
  const host = match[1] ?? "";
  if (host !== "" && !isHost(host)) return undefined;
  return {
    hostname: host === "" ? "0.0.0.0" : host.replace(/^\[(.*)\]$/, "$1"),
    port: Number(match[2]),
  };
}

/** Whether numbers are an address, and brackets hold one; a name is taken as it is. */
function isHost(host: string): boolean {
  if (!host.startsWith("[") && !/^[0-9.]+$/.test(host)) return true;
  const url = URL.parse(`http://${host}/`);
  // A URL writes a short address in full; here it must be written so.
  return url !== null && (host.startsWith("[") || url.hostname === host);
}

/** An address as one would write it, so that it parses. */
export function formatListen({ hostname, port }: ListenAddress): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}

function parsePrefix(text: string): string | undefined {
  // Clients fold dot segments before they send, so that none would reach such a prefix.
  if (!/^(?:\/[A-Za-z0-9\-._~]+)+\/?$/.test(text) || /\/\.\.?(?:\/|$)/.test(text)) return undefined;
  return text.replace(/\/$/, "");
}

/** Headers with a meaning of their own on some answer. */
const TAKEN_HEADERS: ReadonlySet<string> = new Set([
  "allow",
  "cache-control",
  "connection",
  "content-length",
  "content-type",
  "date",
  "sec-websocket-accept",
  "transfer-encoding",
  "upgrade",
  "www-authenticate",
  "x-accel-buffering",
]);

function parseHeaderName(text: string): string | undefined {
  if (!/^[A-Za-z0-9!#$%&'*+\-.^_`|~]{1,256}$/.test(text)) return undefined;
  return TAKEN_HEADERS.has(text.toLowerCase()) ? undefined : text;
}

function parseNames(text: string): readonly string[] | undefined {
  const names = text.split(",").map((name) => name.trim()).filter((name) => name !== "");
  return names.some((name) => name.includes("=") || name.includes("\0")) ? undefined : names;
}
