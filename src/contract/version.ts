/**
 * The daemon's bare semantic version: value of the version header, of `health.version` and of
 * `schema.daemon_version`.
 */
export const VERSION = "0.1.0";

/** The wire protocol's version. It tracks the `/v1/` path namespace, not the daemon's releases. */
export const PROTOCOL_VERSION = "1";
