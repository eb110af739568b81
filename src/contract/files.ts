import { decodeQuery, object, orNull, type QuerySource } from "./object.ts";
import { digits64, Mismatch, type Schema, text } from "./schema.ts";

/** Schema of a path in a query. */
export const PATH: Schema<string> = text({ nonEmpty: true, cString: true });

/** Target of a file write or of a tar transfer. */
export class FsQuery extends object({
  /** Relative paths start at the daemon's working directory; a tar upload's must be absolute. */
  path: PATH,
  /**
   * Octal mode of a file write: up to four digits after an optional 0 or 0o. Ignored by the tar routes, valid or not.
   */
  mode: orNull(text()),
}) {}

/** File to read, whole or a window of its lines. */
export class FileReadQuery extends object({
  /** Relative paths start at the daemon's working directory. */
  path: PATH,
  /** First line, 1-based and inclusive; absent means 1. */
  start_line: orNull(digits64(1n)),
  /** Last line, 1-based and inclusive; absent means through the end of the file. */
  end_line: orNull(digits64(0n)),
}) {}

/** Decodes the query of a file read; throws {@link Mismatch}. */
export function decodeFileReadQuery(source: QuerySource): FileReadQuery {
  const decoded = decodeQuery(FileReadQuery, source);
  if (decoded.end_line !== null && decoded.end_line < (decoded.start_line ?? 1n)) {
    throw new Mismatch("query parameter end_line must not be before start_line");
  }
  return decoded;
}

/** The mode that `mode` spells in octal; throws {@link Mismatch}. */
export function parseMode(mode: string): number {
  const digits = /^(?:0o|0)?([0-7]{1,4})$/.exec(mode)?.[1];
  if (digits === undefined) {
    throw new Mismatch("query parameter mode must be up to four octal digits");
  }
  return Number.parseInt(digits, 8);
}
