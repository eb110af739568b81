import { type LimitRow, LIMITS, limitVariable } from "./contract/limits.ts";
import { UINT64_MAX } from "./contract/schema.ts";
import { LOG_LEVELS, type LogLevel } from "./log.ts";

/** A TCP address to listen on. */
export interface TcpAddress {
  /** Host name or address; IPv6 without brackets, nothing where none was told. */
  readonly hostname: string;
  /** TCP port; 0 lets the system choose. */
  readonly port: number;
}

/** A vsock address to listen on. */
export interface VsockListenAddress {
  /** One of the guest's own context ids, or {@link ANY_CID}. */
  readonly cid: number;
  /** vsock port, of 32 bits. */
  readonly port: number;
}

/** An address to listen on. */
export type ListenAddress = TcpAddress | VsockListenAddress;

/** Every context id that the guest has, as Deno spells it. */
export const ANY_CID: VsockListenAddress["cid"] = -1;

/** What the values of a setting stand for, by the kind of the setting. */
export interface Kinds {
  /** Where to listen: at least one address. */
  readonly addresses: readonly ListenAddress[];
  /** A path in a URL, without a slash at its end. */
  readonly prefix: string;
  /** The name of a header. */
  readonly header: string;
  /** A whole number. */
  readonly integer: number;
  /** A whole number of 64 bits. */
  readonly uint64: bigint;
  /** A number of seconds, fractions included. */
  readonly seconds: number;
  /** Whether something is on. */
  readonly switch: boolean;
  /** An absolute path. */
  readonly path: string;
  /** A path, as it is. */
  readonly file: string;
  /** Names of variables. */
  readonly names: readonly string[];
  /** A level of the log. */
  readonly level: LogLevel;
}

/** One variable of the environment. */
export interface Setting {
  /** Its name. */
  readonly variable: string;
  /** How its value is read. */
  readonly kind: keyof Kinds;
  /** The default, as one would write it. */
  readonly fallback: string;
  /** The smallest and the largest value of a number. */
  readonly range?: readonly [number, number];
  /** What it is for, in one line. */
  readonly purpose: string;
}

/**
 * All settings but the limits, which have a table of their own in the contract: environment, help and documents come
 * from these two.
 */
export const SETTINGS = {
  listen: {
    variable: "GUESTD_LISTEN",
    kind: "addresses",
    fallback: "0.0.0.0:9000",
    purpose:
      "Addresses to listen on, joined by commas; TCP port 0 lets the system choose, `vsock:9000` needs no network.",
  },
  hookPrefix: {
    variable: "GUESTD_HOOK_PREFIX",
    kind: "prefix",
    fallback: "/platform/runtime/v1",
    purpose: "Path prefix of the platform's lifecycle hooks.",
  },
  versionHeader: {
    variable: "GUESTD_VERSION_HEADER",
    kind: "header",
    fallback: "service-version",
    purpose: "Name of the header that carries the daemon's version on every answer.",
  },
  diskReserveBytes: {
    variable: "GUESTD_DISK_RESERVE_BYTES",
    kind: "uint64",
    fallback: "268435456",
    purpose: "Bytes that must stay free on a disk that is written to; 0 disables the guard.",
  },
  identityRepair: {
    variable: "GUESTD_IDENTITY_REPAIR",
    kind: "switch",
    fallback: "off",
    purpose: "`on` makes machine id, boot id and random seed anew; for images only.",
  },
  identityRoot: {
    variable: "GUESTD_IDENTITY_ROOT",
    kind: "path",
    fallback: "/",
    purpose: "Directory beneath which the identity is repaired; another than `/` is for tests.",
  },
  inheritEnv: {
    variable: "GUESTD_INHERIT_ENV",
    kind: "names",
    fallback: "",
    purpose: "Names, joined by commas, of the daemon's own variables that commands inherit.",
  },
  spoolDir: {
    variable: "GUESTD_SPOOL_DIR",
    kind: "path",
    fallback: "/var/tmp",
    purpose: "Directory for unacked output beyond 64 MiB in all.",
  },
  maxConnections: {
    variable: "GUESTD_MAX_CONNECTIONS",
    kind: "integer",
    fallback: "1024",
    range: [1, 1_000_000],
    purpose: "Most connections at a time; never more than half the descriptors.",
  },
  requestTimeoutSecs: {
    variable: "GUESTD_REQUEST_TIMEOUT_SECS",
    kind: "seconds",
    fallback: "10",
    range: [0.001, 2_000_000],
    purpose:
      "Seconds for the first head of a connection, a hook's body, and each 64 KiB of others.",
  },
  idleTimeoutSecs: {
    variable: "GUESTD_IDLE_TIMEOUT_SECS",
    kind: "seconds",
    fallback: "120",
    range: [0.001, 2_000_000],
    purpose: "Seconds that a connection may be idle, and an upload or download stand still.",
  },
  drainSecs: {
    variable: "GUESTD_DRAIN_SECS",
    kind: "seconds",
    fallback: "5",
    range: [0, 2_000_000],
    purpose: "Seconds that requests in flight may take at the end.",
  },
  logLevel: {
    variable: "GUESTD_LOG",
    kind: "level",
    fallback: "info",
    purpose: "Lowest level that is logged: `debug`, `info`, `warn`, `error`.",
  },
  library: {
    variable: "GUESTD_LIBRARY",
    kind: "file",
    fallback: "",
    purpose: "Path of the native library; without it the one beside the bundle.",
  },
} as const satisfies Record<string, Setting>;

/** The setting of a limit. */
export function limitSetting(name: string, { value, range, purpose }: LimitRow): Setting {
  const kind = name.endsWith("_secs") ? "seconds" : "integer";
  return { variable: limitVariable(name), kind, fallback: String(value), range, purpose };
}

/** All settings, those of the limits last. */
export function allSettings(): readonly Setting[] {
  const limits = Object.entries(LIMITS).map(([name, row]) => limitSetting(name, row));
  return [...Object.values(SETTINGS), ...limits];
}

/** What `text` stands for as a value of `setting`; undefined when it does not parse. */
export function parseSetting<K extends keyof Kinds>(
  setting: Setting & { readonly kind: K },
  text: string,
): Kinds[K] | undefined {
  const value = PARSERS[setting.kind](text);
  if (typeof value !== "number" || setting.range === undefined) return value;
  const [least, most] = setting.range;
  return value >= least && value <= most ? value : undefined;
}

/** What a value of `setting` has to be, as the end of "must be". */
export function formOf({ kind, range: [least, most] = [0, 0] }: Setting): string {
  const bounds = `from ${least} to ${most}`;
  return `${FORMS[kind]}${kind === "integer" || kind === "seconds" ? ` ${bounds}` : ""}`;
}

const FORMS: { readonly [K in keyof Kinds]: string } = {
  addresses:
    "host:port, [ipv6]:port, :port, port, vsock:port or vsock:cid:port, or several joined " +
    "by commas, each once",
  prefix: "an absolute path of plain segments",
  header: "a header name that means nothing else",
  integer: "an integer",
  uint64: `an integer from 0 to ${UINT64_MAX}`,
  seconds: "a number of seconds",
  switch: "on or off",
  path: "an absolute path",
  file: "a path",
  names: "names joined by commas",
  level: `one of ${LOG_LEVELS.join(", ")}`,
};

const PARSERS: { readonly [K in keyof Kinds]: (text: string) => Kinds[K] | undefined } = {
  addresses: parseAddresses,
  prefix: parsePrefix,
  header: parseHeaderName,
  integer: (text) => /^[0-9]{1,16}$/.test(text) ? Number(text) : undefined,
  uint64: parseUint64,
  seconds: (text) => /^[0-9]{1,10}(?:\.[0-9]{1,9})?$/.test(text) ? Number(text) : undefined,
  switch: (text) => text === "on" ? true : text === "off" ? false : undefined,
  path: (text) => text.startsWith("/") && !text.includes("\0") ? text : undefined,
  file: (text) => text,
  names: parseNames,
  level: (text) => LOG_LEVELS.find((level) => level === text),
};

function parseUint64(text: string): bigint | undefined {
  const value = /^[0-9]{1,20}$/.test(text) ? BigInt(text) : undefined;
  return value !== undefined && value <= UINT64_MAX ? value : undefined;
}

function parseAddresses(text: string): readonly ListenAddress[] | undefined {
  const addresses = text.split(",").map((one) => parseVsock(one) ?? parseTcp(one));
  const isOnce = new Set(addresses.map((one) => one && addressText(one))).size === addresses.length;
  return isOnce && addresses.every((one) => one !== undefined) ? addresses : undefined;
}

/** An address as it is written in the settings. */
export function addressText(address: ListenAddress): string {
  const { port } = address;
  if ("hostname" in address) {
    const { hostname } = address;
    return `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
  }
  return address.cid === ANY_CID ? `vsock:${port}` : `vsock:${address.cid}:${port}`;
}

/** Of 32 bits the highest value stands for any, and CID 0 for the hypervisor; port 0 is nobody's. */
function parseVsock(text: string): VsockListenAddress | undefined {
  const [, cid, port] = /^vsock:(?:([0-9]{1,10}):)?([0-9]{1,10})$/.exec(text) ?? [];
  const isOne = (number: number): boolean => number >= 1 && number < 2 ** 32 - 1;
  if (!isOne(Number(port)) || !isOne(Number(cid ?? 1))) return undefined;
  return { cid: Number(cid ?? ANY_CID), port: Number(port) };
}

function parseTcp(text: string): TcpAddress | undefined {
  const match = /^(?:(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._]*):)?([0-9]{1,5})$/.exec(text);
  if (match === null || Number(match[2]) > 65535) return undefined;
  const host = match[1] ?? "";
  if (host === "vsock") return undefined;
  if (host !== "" && !isHost(host)) return undefined;
  return { hostname: host.replace(/^\[(.*)\]$/, "$1"), port: Number(match[2]) };
}

/** Whether numbers are an address, and brackets hold one; a name is taken as it is. */
function isHost(host: string): boolean {
  if (!host.startsWith("[") && !/^[0-9.]+$/.test(host)) return true;
  const url = URL.parse(`http://${host}/`);
  // A URL writes a short address in full; here it must be written so.
  return url !== null && (host.startsWith("[") || url.hostname === host);
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
