import {
  pathParameter,
  query,
  type QuerySchema,
  type QuerySource,
  textParameter,
  uint64Parameter,
} from "./query.ts";
import { PlainRefusal, refusingPlainly } from "./refusal.ts";
import { Mismatch } from "./schema.ts";

/** Query of a file write and of both tar routes. */
export interface FsQuery {
  /** Target path, not empty, without NUL. */
  readonly path: string;
  /** Octal file mode as text; see {@link parseMode}. */
  readonly mode: string | null;
}

/** Query of `GET /v1/fs/file`. */
export interface FileReadQuery {
  /** File to read, not empty, without NUL. */
  readonly path: string;
  /** First line, 1-based; null means 1. */
  readonly start_line: bigint | null;
  /** Last line, 1-based and inclusive; null means through the end. */
  readonly end_line: bigint | null;
}

/** Schema of {@link FsQuery}. */
export const FS_QUERY: QuerySchema<FsQuery> = query<FsQuery>(
  "FsQuery",
  "Target of a file write or of a tar transfer.",
  {
    path: pathParameter(
      "Relative paths start at the daemon's working directory; a tar upload's must be absolute.",
    ),
    mode: textParameter(
      "Octal mode of a file write: up to four digits after an optional 0 or 0o. " +
        "Ignored by the tar routes, valid or not.",
    ),
  },
);

/** Schema of {@link FileReadQuery}. */
export const FILE_READ_QUERY: QuerySchema<FileReadQuery> = query<FileReadQuery>(
  "FileReadQuery",
  "File to read, whole or a window of its lines.",
  {
    path: pathParameter("Relative paths start at the daemon's working directory."),
    start_line: uint64Parameter(null, 1n, "First line, 1-based and inclusive; absent means 1."),
    end_line: uint64Parameter(
      null,
      0n,
      "Last line, 1-based and inclusive; absent means through the end of the file.",
    ),
  },
);

/**
 * Decodes the query of a file write or tar route; throws a {@link PlainRefusal} with status 400.
 */
export function decodeFsQuery(source: QuerySource): FsQuery {
  return refusingPlainly(() => FS_QUERY.read(source));
}

/** Decodes the query of a file read; throws a {@link PlainRefusal} with status 400. */
export function decodeFileReadQuery(source: QuerySource): FileReadQuery {
  return refusingPlainly(() => {
    const decoded = FILE_READ_QUERY.read(source);
    if (decoded.end_line !== null && decoded.end_line < (decoded.start_line ?? 1n)) {
      throw new Mismatch("query parameter end_line must not be before start_line");
    }
    return decoded;
  });
}

/** The mode that `mode` spells in octal; throws a {@link PlainRefusal} with status 400. */
export function parseMode(mode: string): number {
  const digits = /^(?:0o|0)?([0-7]{1,4})$/.exec(mode)?.[1];
  if (digits === undefined) {
    throw new PlainRefusal(400, "query parameter mode must be up to four octal digits");
  }
  return Number.parseInt(digits, 8);
}
