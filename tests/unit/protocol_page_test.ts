import { deepStrictEqual, notStrictEqual } from "node:assert/strict";
import { schemaDocument } from "../../src/contract/document.ts";
import { DEFAULT_LIMITS } from "../../src/contract/limits.ts";
import { SLUGS } from "../../src/contract/refusal.ts";
import { ROWS } from "../../src/contract/rows.ts";
import { CLOSE_CODES } from "../../src/contract/tunnel.ts";
import { readSource } from "../support/source_files.ts";

const PAGE = readSource("docs/protocol.md");

/** The cells of every row, bare of backticks, of the tables whose first heading is `heading`. */
function tablesOf(page: string, heading: string): string[][] {
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

/** The part of the page between a route's heading and the next one. */
function sectionOf(method: string, path: string): string {
  return PAGE.split(/^#+ /m).find((part) => part.startsWith(`${method} ${path}\n`)) ?? "";
}

Deno.test("the page lists the routes that are served, in their order", () => {
  deepStrictEqual(
    tablesOf(PAGE, "method").map(([method, path, auth]) => [method, path, auth]),
    ROWS.map(({ method, path, auth }) => [method, path, auth]),
  );
});

Deno.test("the page gives each route's statuses and slugs", () => {
  const onlyOk = (codes: readonly number[]): boolean => codes.every((code) => code === 200);
  const told = ROWS.filter((row) =>
    row.auth === "Bearer" || !onlyOk(row.statuses.map(({ code }) => code))
  );
  for (const { method, path, statuses } of told) {
    const rows = tablesOf(sectionOf(method, path), "status").map(([code, slug]) =>
      `${code} ${slug}`
    );
    const served = statuses.filter(({ code }) => code !== 401 && code !== 503);
    deepStrictEqual(
      rows.sort(),
      served.map(({ code, error }) => `${code} ${error}`).sort(),
      `${method} ${path}`,
    );
  }
});

Deno.test("the page gives the fields of each type, and the values of those that are a choice", () => {
  const options = { limits: DEFAULT_LIMITS, hookPrefix: "/", versionHeader: "version" };
  const types = Object.entries(schemaDocument(options)["$defs"] as Record<string, object>);
  notStrictEqual(types.length, 0);
  for (const [name, type] of types) {
    const { properties, enum: choices } = type as {
      readonly properties?: object;
      readonly enum?: readonly string[];
    };
    const documented = tablesOf(PAGE, name).map(([first]) => first);
    deepStrictEqual(documented, choices ?? Object.keys(properties ?? {}), name);
  }
});

Deno.test("the page gives the slugs, the close codes and the limits with their values", () => {
  deepStrictEqual(
    tablesOf(PAGE, "slug").map(([slug, status]) => [slug, status]),
    Object.entries(SLUGS).map(([slug, { status }]) => [slug, `${status}`]),
  );
  deepStrictEqual(
    tablesOf(PAGE, "close code").map(([code]) => code),
    Object.values(CLOSE_CODES).map(({ code }) => `${code}`),
  );
  deepStrictEqual(
    tablesOf(PAGE, "limit").map(([limit, value]) => [limit, value]),
    Object.entries(DEFAULT_LIMITS).map(([limit, value]) => [limit, `${value}`]),
  );
});
