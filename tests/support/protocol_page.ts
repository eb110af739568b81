/**
 * The tables of docs/protocol.md: the wire as it is written down by hand, for the daemon to be compared with. Cells are
 * bare of their backticks.
 */

import { readSource } from "./source_files.ts";

/** One route: `path` has its placeholders. */
export interface PageRoute {
  readonly method: string;
  readonly path: string;
  readonly auth: string;
  /** Every status, with its slug where it has one. */
  readonly statuses: readonly string[];
}

export function protocolPage(): string {
  return readSource("docs/protocol.md");
}

/** The rows of the tables whose first heading is `heading`, of the whole page or a part of it. */
export function tableOf(heading: string, page: string = protocolPage()): string[][] {
  const rows: string[][] = [];
  let inTable = false;
  for (const line of page.split("\n")) {
    const cells = line.split("|").slice(1, -1).map((cell) => cell.trim().replaceAll("`", ""));
    if (cells.length === 0) inTable = false;
    else if (inTable && cells[0] !== "---") rows.push(cells);
    else if (cells[0] === heading) inTable = true;
  }
  return rows;
}

/** The routes in the page's order. What every Bearer route answers stands in no table of one; of others 200 goes without. */
export function pageRoutes(): PageRoute[] {
  return tableOf("method").map(([method = "", path = "", auth = ""]) => {
    const section = protocolPage().split(/^#+ /m).find((part) =>
      part.startsWith(`${method} ${path}\n`)
    );
    const told = tableOf("status", section ?? "").map(([code, slug]) => `${code} ${slug}`.trim());
    const statuses = auth === "Bearer" ? [...told, "401", "503"] : told.length > 0 ? told : ["200"];
    return { method, path, auth, statuses };
  });
}
