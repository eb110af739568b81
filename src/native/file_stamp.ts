import type { Symbols } from "./library.ts";
import { checked } from "./status.ts";

/** Size of a stamp in bytes: `STAMP_BYTES` in `native/src/file/stamp.rs`. */
const STAMP_BYTES = 48;

/** The functions that a {@link FileStamp} calls. */
export type StampSymbols = Pick<Symbols, "guestd_file_changed">;

/** Tells whether a file changed since the last time it was asked, by inode, size and times. */
export class FileStamp {
  /** The file that it is about. */
  readonly path: string;
  readonly #symbols: StampSymbols;
  readonly #name: Uint8Array<ArrayBuffer>;
  readonly #stamp = new Uint8Array(STAMP_BYTES);

  /** A stamp of the file at `path`, which counts as changed at first. */
  constructor(symbols: StampSymbols, path: string) {
    this.path = path;
    this.#symbols = symbols;
    this.#name = new TextEncoder().encode(path);
  }

  /** Whether it changed. Takes a microsecond. Throws `NativeError` for a file that is not there. */
  changed(): boolean {
    const { guestd_file_changed: changed } = this.#symbols;
    const [name, stamp] = [this.#name, this.#stamp];
    return checked("look at a file", changed(name, name.length, stamp, stamp.length)) === 1;
  }

  /** Lets the file count as changed the next time. */
  forget(): void {
    this.#stamp.fill(0);
  }
}
