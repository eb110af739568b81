/**
 * Makes the pages of `dist/docs`: `build.ts DIRECTORY OPENAPI`. The guides are the repository's Markdown, the reference is
 * drawn by Scalar from the OpenAPI document. They work from a disk, without a server, and ask for nothing elsewhere.
 *
 * @module
 */

import { Marked, type Token, type Tokens } from "marked";

const ROOT = new URL("../../", import.meta.url);

/** The guides in the order in which they are listed, by what their readers want. */
const GUIDES: Readonly<Record<string, readonly string[]>> = {
  "Using it": ["README.md", "docs/guide.md", "docs/guestctl.md", "docs/client.md"],
  "The wire": ["docs/protocol.md", "docs/protocol-notes.md", "docs/tunnel.md"],
  "Running it": [
    "docs/configuration.md",
    "docs/guest-image.md",
    "docs/platforms.md",
    "docs/security.md",
  ],
  "Changing it": [
    "docs/architecture.md",
    "CONTRIBUTING.md",
    "docs/benchmarks.md",
    "docs/faults.md",
    "docs/deno-internals.md",
    "docs/status.md",
    "CHANGELOG.md",
  ],
};

/** The page on which the routes are. */
const REFERENCE = "reference.html";

/** What a search finds: a section of a guide, or a route. */
interface Section {
  readonly id: number;
  readonly page: string;
  readonly title: string;
  readonly text: string;
  readonly url: string;
}

/** An operation of the OpenAPI document, as far as the search knows it. */
interface Operation {
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
}

const documents = Object.values(GUIDES).flat();

/** The page that a document becomes. */
function pageOf(document: string): string {
  if (document === "README.md") return "index.html";
  return `${document.replace(/^docs\//, "").replace(/\.md$/, "").toLowerCase()}.html`;
}

/** A heading as links name it; the same as on the sites that show Markdown. */
function slugOf(heading: string): string {
  return heading.toLowerCase().replace(/[^\w\- ]/g, "").replaceAll(" ", "-");
}

/** Makes pages of documents, and gathers what they link to and what can be found in them. */
class Guides {
  readonly sections: Section[] = [];
  readonly #titles = new Map<string, string>();
  /** Files that pages show or link to, by their paths in the repository. */
  readonly files = new Set<string>();

  /** Reads the titles, which the list of all pages needs. */
  constructor(private readonly sources: ReadonlyMap<string, string>) {
    for (const [document, source] of sources) {
      this.#titles.set(document, /^# (.+)$/m.exec(source)?.[1] ?? document);
    }
  }

  /** The page of a document. */
  page(document: string): string {
    const marked = new Marked({
      walkTokens: (token: Token) => {
        if (token.type === "link" || token.type === "image") {
          token["href"] = this.#target(document, token["href"]);
        }
      },
      renderer: {
        heading({ tokens, depth, text }: Tokens.Heading): string {
          const id = slugOf(text);
          const words = this.parser.parseInline(tokens);
          return `<h${depth} id="${id}"><a href="#${id}">${words}</a></h${depth}>\n`;
        },
      },
    });
    const source = this.sources.get(document) ?? "";
    this.#gather(document, marked.lexer(source));
    const body = (marked.parse(source) as string)
      .replaceAll("<table>", '<div class="wide"><table>').replaceAll("</table>", "</table></div>");
    return this.frame(this.#titles.get(document) ?? "", pageOf(document), `<main>${body}</main>`);
  }

  /** A whole page: what all have in common, around `body`. */
  frame(title: string, page: string, body: string): string {
    const entry = (to: string, label: string): string =>
      `<li><a href="${to}"${to === page ? ' aria-current="page"' : ""}>${escaped(label)}</a></li>`;
    const groups = Object.entries(GUIDES).map(([group, guides]) =>
      `<h2>${group}</h2><ul>${
        guides.map((guide) => entry(pageOf(guide), this.#titles.get(guide) ?? "")).join("")
      }${group === "The wire" ? entry(REFERENCE, "API reference") : ""}</ul>`
    );
    return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)} · guestd</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css">
<script src="search.js" defer></script>
<script src="page.js" defer></script>
</head>
<body>
<header>
<button id="menu" aria-label="Pages" aria-expanded="false">☰</button>
<a class="name" href="index.html">guestd</a>
<input id="search" type="search" placeholder="Search" aria-label="Search" autocomplete="off">
<button id="theme" aria-label="Dark or light">◐</button>
<ol id="found" hidden></ol>
</header>
<nav id="pages">${groups.join("")}</nav>
${body}
</body>
</html>
`;
  }

  /** Where a link of a document leads among the pages. */
  #target(document: string, href: string): string {
    if (/^(https?:|#)/.test(href)) return href;
    const { pathname, hash } = new URL(href, `file:///${document}`);
    const path = pathname.slice(1);
    if (this.#titles.has(path)) return `${pageOf(path)}${hash}`;
    this.files.add(path);
    return `files/${path}${hash}`;
  }

  #gather(document: string, tokens: readonly Token[]): void {
    const page = this.#titles.get(document) ?? "";
    let [title, url, text] = [page, pageOf(document), ""];
    const end = (): void => {
      if (text !== "") this.add({ page, title, text, url });
      text = "";
    };
    for (const token of tokens) {
      if (token.type === "heading") {
        end();
        title = token["text"].replaceAll("`", "");
        url = `${pageOf(document)}#${slugOf(token["text"])}`;
      } else text += `${token.raw}\n`;
    }
    end();
  }

  /** Adds what can be found. */
  add(section: Omit<Section, "id">): void {
    this.sections.push({ id: this.sections.length, ...section });
  }
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

/** Text that a script element can hold. */
function asScript(value: unknown): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}

/** The page of the routes. Its own search, toggle and requests are off: the pages' are there, and it is to be read. */
function reference(guides: Guides, openApi: string): string {
  const document = JSON.parse(openApi);
  for (const [path, methods] of Object.entries<Record<string, Operation>>(document.paths)) {
    for (
      const [method, { tags: [tag = ""], summary, description = "" }] of Object.entries(methods)
    ) {
      guides.add({
        page: "API reference",
        title: `${method.toUpperCase()} ${path}`,
        text: `${summary}. ${description}`,
        url: `${REFERENCE}#tag/${tag.toLowerCase()}/${method.toUpperCase()}${path}`,
      });
    }
  }
  const body = `<div id="reference"></div>
<script src="scalar.js"></script>
<script>globalThis.OPENAPI = ${asScript(document)};</script>`;
  return guides.frame("API reference", REFERENCE, body);
}

if (import.meta.main) {
  const [directory = "", openApi = ""] = Deno.args;
  const read = (path: string): string => Deno.readTextFileSync(new URL(path, ROOT));
  const write = (name: string, text: string): void => {
    const file = `${directory}/${name}`;
    Deno.mkdirSync(file.replace(/\/[^/]*$/, ""), { recursive: true });
    Deno.writeTextFileSync(file, text);
  };
  const known = Array.from(Deno.readDirSync(new URL("docs/", ROOT)), ({ name }) => `docs/${name}`);
  const forgotten = known.filter((name) => name.endsWith(".md") && !documents.includes(name));
  if (forgotten.length > 0) throw new Error(`Cannot list ${forgotten}: they are in no group`);
  const guides = new Guides(new Map(documents.map((document) => [document, read(document)])));
  for (const document of documents) write(pageOf(document), guides.page(document));
  write(REFERENCE, reference(guides, Deno.readTextFileSync(openApi)));
  write("search.js", `globalThis.SECTIONS = ${JSON.stringify(guides.sections)};\n`);
  for (const file of guides.files) write(`files/${file}`, read(file));
  write("style.css", read("scripts/docs/style.css"));
}
