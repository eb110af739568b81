import { type Limits, limitsBy } from "./contract/limits.ts";
import { cut, quoted } from "./contract/refusal.ts";
import { VERSION } from "./contract/version.ts";
import {
  allSettings,
  formOf,
  type Kinds,
  limitSetting,
  type ListenAddress,
  parseSetting,
  type Setting,
  SETTINGS,
} from "./settings.ts";

/** The value of each setting, and the limits in force. */
export type Config =
  & { readonly [K in keyof typeof SETTINGS]: Kinds[(typeof SETTINGS)[K]["kind"]] }
  & {
    /** Limits in force. */
    readonly limits: Limits;
  };

/** A configuration and what was wrong with the environment. */
export interface ReadConfig {
  /** The settings in force. */
  readonly config: Config;
  /** One sentence for each value that did not parse. */
  readonly warnings: readonly string[];
}

/**
 * Makes the configuration from the environment. What does not parse keeps its default and gives a warning; the default
 * of the address is `listenDefault`, whose host is also that of an address without one. Throws when that is no address
 * with a host.
 */
export function readConfig(
  env: (name: string) => string | undefined,
  listenDefault: string = SETTINGS.listen.fallback,
): ReadConfig {
  const warnings: string[] = [];

  function read<K extends keyof Kinds>(
    setting: Setting & { readonly kind: K },
    fallback = setting.fallback,
  ): Kinds[K] {
    const given = env(setting.variable) ?? "";
    // Set to nothing is as good as not set.
    const parsed = given === "" ? undefined : parseSetting(setting, given);
    if (parsed !== undefined) return parsed;
    if (given !== "") {
      const instead = fallback || "none";
      warnings.push(
        `${setting.variable} must be ${formOf(setting)}, not ${quoted(given)}; the default stays ` +
          `in force: ${instead}`,
      );
    }
    const value = parseSetting(setting, fallback);
    if (value === undefined) {
      throw new Error(`Cannot use the default of ${setting.variable}: it does not parse`);
    }
    return value;
  }

  const [first] = parseSetting(SETTINGS.listen, listenDefault) ?? [];
  const hostname = first !== undefined && "hostname" in first ? first.hostname : "";
  if (hostname === "") throw new Error("Cannot listen there by default: no address with a host");
  const listen = read(SETTINGS.listen, listenDefault);
  const others = Object.entries(SETTINGS).filter(([key]) => key !== "listen");
  const withHost = (address: ListenAddress): ListenAddress =>
    "hostname" in address ? { ...address, hostname: address.hostname || hostname } : address;
  const config: Partial<Config> = {
    listen: listen.map(withHost),
    ...Object.fromEntries(others.map(([key, setting]) => [key, read(setting)])),
    limits: limitsBy((name, row) => read(limitSetting(name, row)) as number),
  };
  return { config: config as Config, warnings };
}

/** One sentence for each of `names` that looks like a setting and is none. */
export function unknownVariables(names: Iterable<string>): readonly string[] {
  const known = new Set(allSettings().map(({ variable }) => variable));
  return [...names].filter((name) => name.startsWith("GUESTD_") && !known.has(name))
    .map((name) => `${cut(name)} is no setting, and has no effect: guestd --help lists all`);
}

/** What `guestd --help` prints. */
export function helpText(listenDefault: string = SETTINGS.listen.fallback): string {
  const rows = allSettings().map(({ variable, fallback, purpose }) =>
    `  ${variable}=${variable === SETTINGS.listen.variable ? listenDefault : fallback}\n` +
    `      ${purpose.replaceAll("`", "")}`
  );
  return [
    `guestd ${VERSION}: guest execution daemon`,
    "",
    "Usage: guestd [--listen-default HOST:PORT]",
    "              [--version | --help | --print-schema | --print-openapi]",
    "",
    "Without an option it serves until it is terminated. Settings come from the environment,",
    "shown here with their defaults; a value that does not parse is logged and the default kept:",
    "",
    ...rows,
    "",
  ].join("\n");
}
