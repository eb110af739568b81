import { type RouteRow, ROWS, servedPath } from "../contract/rows.ts";

/** A row whose pattern fits a path. */
export interface Fit {
  /** The row. */
  readonly row: RouteRow;
  /** The decoded `{id}`; undefined when it cannot be decoded or the row has none. */
  readonly id: string | undefined;
}

/** A path with an `{id}`: what stands before it, and what behind. */
interface Pattern {
  readonly row: RouteRow;
  readonly before: string;
  readonly behind: string;
}

/**
 * The rows by their patterns. Paths are matched raw: no folding, no merging, no decoding but of the
 * id.
 *
 * Invariant: each row is in `#exact` under its path if it has no `{id}`, else in `#patterns`.
 */
export class Roster {
  readonly #exact = new Map<string, Fit[]>();
  readonly #patterns: Pattern[] = [];

  /** Takes the rows with the hook prefix put in. */
  constructor(hookPrefix: string) {
    for (const row of ROWS) {
      const path = servedPath(row, hookPrefix);
      const [before = "", behind] = path.split("{id}");
      if (behind !== undefined) this.#patterns.push({ row, before, behind });
      else this.#exact.set(path, [...this.#exact.get(path) ?? [], { row, id: undefined }]);
    }
  }

  /** All rows that fit: `/v1/exec/start` is also the path of the exec named `start`. */
  find(path: string): readonly Fit[] {
    const fits = [...this.#exact.get(path) ?? []];
    for (const { row, before, behind } of this.#patterns) {
      if (!path.startsWith(before) || !path.endsWith(behind)) continue;
      const raw = path.slice(before.length, path.length - behind.length);
      if (path.length < before.length + behind.length || raw === "" || raw.includes("/")) continue;
      fits.push({ row, id: decodeId(raw) });
    }
    return fits;
  }
}

function decodeId(raw: string): string | undefined {
  try {
    return decodeURIComponent(raw);
  } catch {
    return undefined;
  }
}
