import { SYMBOLS } from "./symbols.ts";

/** The version of the border that this side speaks: `ABI_VERSION` in `native/src/abi`. */
export const ABI_VERSION = 10;

/** The opened native library. */
export type Library = Deno.DynamicLibrary<typeof SYMBOLS>;

/** Its functions. */
export type Symbols = Library["symbols"];

/**
 * Loads the native library at `path`.
 *
 * Throws `Error` when it cannot be loaded or speaks another version.
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
