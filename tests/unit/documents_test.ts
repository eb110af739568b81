import { deepStrictEqual, notStrictEqual, ok } from "node:assert/strict";
import { exists, readSource, sourceFiles, sourceUrl } from "../support/source_files.ts";

const DOCUMENTS = ["README.md", "CONTRIBUTING.md", ...sourceFiles("docs", ".md")];

Deno.test("every path of the repository that a document names is there", () => {
  const named = DOCUMENTS.flatMap((document) =>
    Array.from(
      readSource(document).matchAll(
        /`((?:src|native|tests|scripts|image|docs|\.ci)\/[\w./-]*)`/g,
      ),
      ([, path = ""]) => ({ document, path }),
    )
  );
  notStrictEqual(named.length, 0);
  deepStrictEqual(named.filter(({ path }) => !exists(sourceUrl(path))), []);
});

Deno.test("every link between the documents leads to a file, and to a heading in it", () => {
  const links = DOCUMENTS.flatMap((document) =>
    Array.from(
      readSource(document).matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g),
      ([, path = "", heading = ""]) => ({ document, target: resolve(document, path), heading }),
    )
  );
  notStrictEqual(links.length, 0);
  const broken = links.filter(({ target, heading }) =>
    !exists(sourceUrl(target)) || (heading !== "" && !headingsOf(target).includes(heading))
  );
  deepStrictEqual(broken, []);
});

Deno.test("what docs/architecture.md places in a file can be found there by grep", () => {
  const page = readSource("docs/architecture.md");
  // "| where it is | `file` | `term` |", and "`Registry.start` (`file`)" in a sentence.
  const rows = Array.from(
    page.matchAll(/^\|[^|]+\| `([\w./-]+)` \| `([^`]+)` \|$/gm),
    ([, path = "", term = ""]) => ({ path, term }),
  );
  const mentions = Array.from(
    page.matchAll(/`(?:\w+(?:\.|::))?(\w+)` \(`([\w./-]+)`/g),
    ([, term = "", path = ""]) => ({ path, term }),
  );
  ok(
    rows.length >= 20 && mentions.length >= 20,
    `${rows.length} rows, ${mentions.length} mentions`,
  );
  const lost = [...rows, ...mentions].filter(({ path, term }) =>
    !exists(sourceUrl(path)) || !readSource(path).includes(term)
  );
  deepStrictEqual(lost, []);
});

/** The path from the root of what `document` links to as `path`; nothing means itself. */
function resolve(document: string, path: string): string {
  return path === "" ? document : new URL(path, `file:///${document}`).pathname.slice(1);
}

/** The headings of a document, as links name them. */
function headingsOf(document: string): string[] {
  return Array.from(
    readSource(document).matchAll(/^#+ (.+)$/gm),
    ([, title = ""]) => title.toLowerCase().replace(/[^\w\- ]/g, "").replaceAll(" ", "-"),
  );
}
