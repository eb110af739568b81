/**
 * Looks at the pages in a real browser: `check.ts DOCS PICTURES`. Fails where one says something on its console, asks for
 * anything that is not beside it, has a link that leads nowhere, or is wider than a phone; where a route is missing, the
 * search does not find or the colours do not change. Pictures of three pages are kept.
 *
 * @module
 */

import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  errors,
  type Page,
} from "playwright-core";

const DESKTOP = { viewport: { width: 1280, height: 900 } };
const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, deviceScaleFactor: 2 };

/** What a page has that links can lead to, and where its own links lead. */
interface Links {
  readonly ids: readonly string[];
  readonly hrefs: readonly string[];
}

/** Opens pages and gathers what is wrong with them. */
class Visitor {
  readonly faults: string[] = [];
  readonly #links = new Map<string, Links>();

  constructor(private readonly browser: Browser, private readonly docs: string) {}

  /** A tab of its own, which must stay silent and ask for files alone. */
  async tab(options: BrowserContextOptions): Promise<Page> {
    const tab = await this.browser.newPage(options);
    const fault = (what: string): void => void this.faults.push(`${tab.url()}: ${what}`);
    tab.setDefaultTimeout(20_000);
    tab.on("pageerror", (error) => fault(String(error)));
    tab.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) fault(message.text());
    });
    tab.on("request", (request) => {
      if (!/^(file|data|blob):/.test(request.url())) fault(`it asks for ${request.url()}`);
    });
    return tab;
  }

  /** Shows a page, in a tab of its own unless there is one. */
  async open(name: string, options: BrowserContextOptions | Page = DESKTOP): Promise<Page> {
    const tab = "goto" in options ? options : await this.tab(options);
    await tab.goto(this.url(name));
    if (name.startsWith("reference")) await tab.getByRole("heading", { name: "guestd" }).waitFor();
    return tab;
  }

  /** Where a page is. */
  url(name: string): string {
    return `file://${this.docs}/${name}`;
  }

  /** Notes a sentence unless it holds. */
  expect(holds: boolean, sentence: string): void {
    if (!holds) this.faults.push(sentence);
  }

  /** Looks at a page in a tab of a phone's size, and remembers its links. */
  async visit(name: string, phone: Page): Promise<void> {
    const page = await this.open(name, phone);
    const links = await page.evaluate(`({
      ids: Array.from(document.querySelectorAll("[id]"), ({ id }) => id),
      hrefs: Array.from(document.querySelectorAll("body a[href]"), ({ href }) => href),
      excess: document.documentElement.scrollWidth - ${PHONE.viewport.width},
    })`) as Links & { excess: number };
    this.#links.set(this.url(name), links);
    this.expect(links.excess <= 0, `${name} is ${links.excess} pixels wider than a phone`);
  }

  /** Follows each link within the pages; the reference draws what its links lead to when it comes into sight. */
  follow(): number {
    let followed = 0;
    for (const [url, { hrefs }] of this.#links) {
      for (const href of hrefs.filter((href) => href.startsWith("file:"))) {
        const [target = "", id = ""] = href.split("#");
        const there = this.#links.get(target);
        const leads = there === undefined
          ? exists(new URL(target))
          : id === "" || target.endsWith("/reference.html") ||
            there.ids.includes(decodeURIComponent(id));
        this.expect(leads, `${url} links to ${href}, which is not there`);
        followed++;
      }
    }
    return followed;
  }
}

function exists(url: URL): boolean {
  try {
    return Deno.statSync(url).isFile;
  } catch {
    return false;
  }
}

/** The routes of the document on the page, each where a search for it leads. */
async function checkReference(visitor: Visitor): Promise<void> {
  const page = await visitor.open("reference.html");
  const routes = await page.evaluate(`Object.entries(OPENAPI.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => method.toUpperCase() + " " + path))`) as string[];
  visitor.expect(routes.length === 20, `the reference has ${routes.length} routes`);
  for (const route of routes) {
    const isShown = await leadsTo(page, route).then(() => true, isNot(errors.TimeoutError));
    visitor.expect(isShown, `the reference does not show ${route} where the search leads`);
  }
  await page.close();
}

/** Searches for a route's path and waits until what the hit leads to is in sight, where it is drawn. */
async function leadsTo(page: Page, route: string): Promise<void> {
  const [, path = ""] = route.split(" ");
  await page.locator("#search").fill(path);
  const hit = page.locator("#found a", { hasText: `${route}API reference` });
  await hit.click({ timeout: 5_000 });
  const id = decodeURIComponent(new URL(page.url()).hash.slice(1));
  const inSight = `(() => {
    const section = document.querySelector('[id$="/${id}"]');
    const top = section?.getBoundingClientRect().top ?? -1;
    return top >= 0 && top < innerHeight && section.innerText.includes("${path}");
  })()`;
  await page.waitForFunction(inSight, undefined, { timeout: 5_000 });
}

/** False for an error of the kind, and throws what is another. */
function isNot(kind: new () => Error): (error: unknown) => false {
  return (error: unknown): false => {
    if (error instanceof kind) return false;
    throw error;
  };
}

async function checkGuide(visitor: Visitor): Promise<void> {
  const page = await visitor.open("index.html", { ...DESKTOP, colorScheme: "light" });
  const colour = (): Promise<unknown> =>
    page.evaluate("getComputedStyle(document.body).backgroundColor");
  const light = await colour();
  await page.locator("#theme").click();
  visitor.expect(light !== await colour(), "the colours do not change");
  await page.locator("#search").fill("stdin_write_timeout");
  await page.locator("#search").press("Enter");
  await page.waitForURL(/protocol|configuration|reference/);
  visitor.expect(light !== await colour(), "the colours do not stay");
  await page.close();
}

async function takePictures(visitor: Visitor, directory: string): Promise<void> {
  const pictures = [
    ["index.html", "first-page-light", { ...DESKTOP, colorScheme: "light" }],
    ["protocol.html", "protocol-phone-dark", { ...PHONE, colorScheme: "dark" }],
    ["reference.html#tag/commands/POST/v1/exec/start", "reference-dark", {
      ...DESKTOP,
      colorScheme: "dark",
    }],
  ] as const;
  for (const [name, picture, options] of pictures) {
    const page = await visitor.open(name, options);
    await page.screenshot({ path: `${directory}/${picture}.png` });
    await page.close();
  }
}

if (import.meta.main) {
  const [docs = "", directory = ""] = Deno.args.map((path) => Deno.realPathSync(path));
  const names = Array.from(Deno.readDirSync(docs), ({ name }) => name)
    .filter((name) => name.endsWith(".html")).sort();
  // Its sandbox is not to be had as root; what it shows is ours.
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
  const visitor = new Visitor(browser, docs);
  const phone = await visitor.tab(PHONE);
  for (const name of names) await visitor.visit(name, phone);
  const followed = visitor.follow();
  await checkReference(visitor);
  await checkGuide(visitor);
  await takePictures(visitor, directory);
  await browser.close();
  for (const fault of visitor.faults) console.log(fault);
  console.log(`${names.length} pages, ${followed} links, ${visitor.faults.length} faults`);
  Deno.exit(visitor.faults.length === 0 ? 0 : 1);
}
