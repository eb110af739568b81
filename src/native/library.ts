import { NativeError } from "./status.ts";
import { CONNECTION_SYMBOLS } from "./symbols/connections.ts";
import { CORE_SYMBOLS } from "./symbols/core.ts";
import { EXEC_SYMBOLS } from "./symbols/exec.ts";
import { FILE_SYMBOLS } from "./symbols/files.ts";
import { IDENTITY_SYMBOLS } from "./symbols/identity.ts";
import { NOISE_SYMBOLS } from "./symbols/noise.ts";
import { STREAM_SYMBOLS } from "./symbols/stream.ts";
import { SYSTEM_SYMBOLS } from "./symbols/system.ts";

/** The version of the border that this side speaks: `ABI_VERSION` in `native/src/abi`. */
export const ABI_VERSION = 7;

/** Every function of the library. */
export const SYMBOLS: Tables = {
  ...CONNECTION_SYMBOLS,
  ...CORE_SYMBOLS,
  ...EXEC_SYMBOLS,
  ...FILE_SYMBOLS,
  ...IDENTITY_SYMBOLS,
  ...NOISE_SYMBOLS,
  ...STREAM_SYMBOLS,
  ...SYSTEM_SYMBOLS,
};

/** The tables of all functions, one after the other. */
export type Tables =
  & typeof CONNECTION_SYMBOLS
  & typeof CORE_SYMBOLS
  & typeof EXEC_SYMBOLS
  & typeof FILE_SYMBOLS
  & typeof IDENTITY_SYMBOLS
  & typeof NOISE_SYMBOLS
  & typeof STREAM_SYMBOLS
  & typeof SYSTEM_SYMBOLS;

/** The opened native library. */
export type Library = Deno.DynamicLibrary<Tables>;

/** Its functions. */
export type Symbols = Library["symbols"];

/**
 * Loads the native library at `path`.
 *
 * Throws {@link NativeError} or `Error` when it cannot be loaded or speaks another version.
 */
export function openLibrary(path: string | URL): Library {
  const library = Deno.dlopen(path, SYMBOLS);
  const version = library.symbols.guestd_abi_version();
  if (version !== ABI_VERSION) {
    library.close();
    throw new Error(
      `Cannot use ${path}: it speaks version ${version} of the border, this is ${ABI_VERSION}`,
    );
  }
  return library;
}

export { NativeError };
