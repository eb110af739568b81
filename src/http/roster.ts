import { type RouteRow, ROWS, servedPath } from "../contract/rows.ts";

/** A row whose pattern fits a path. */
export interface Fit {
  /** The row. */
  readonly row: RouteRow;
  /** The decoded `{id}`; undefined when it cannot be decoded or the row has none. */
  readonly id: string | undefined;
}

interface Pattern {
  readonly row: RouteRow;
  readonly segments: readonly string[];
}

/**
 * The rows by their patterns. Paths are matched raw: no folding, no merging, no decoding but of the
 * id.
 */
export class Roster {
  readonly #patterns: readonly Pattern[];

  /** Takes the rows with the hook prefix put in. */
  constructor(hookPrefix: string) {
    this.#patterns = ROWS.map((row) => ({ row, segments: servedPath(row, hookPrefix).split("/") }));
  }

  /** All rows that fit: `/v1/exec/start` is also the path of the exec named `start`. */
  find(path: string): readonly Fit[] {
    const segments = path.split("/");
    const fits: Fit[] = [];
    for (const pattern of this.#patterns) {
      if (!fitsAll(pattern.segments, segments)) continue;
      const at = pattern.segments.indexOf("{id}");
      const raw = at === -1 ? undefined : segments[at];
      fits.push({ row: pattern.row, id: raw === undefined ? undefined : decodeId(raw) });
    }
    return fits;
  }
}

function fitsAll(pattern: readonly string[], segments: readonly string[]): boolean {
  return pattern.length === segments.length &&
    pattern.every((want, at) => want === "{id}" ? segments[at] !== "" : want === segments[at]);
}

function decodeId(raw: string): string | undefined {
  try {
    return decodeURIComponent(raw);
  } catch {
    return undefined;
  }
}
