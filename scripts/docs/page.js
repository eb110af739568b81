// What each page does: the list of pages on a phone, dark and light, the search, and the reference where it is.
import MiniSearch from "minisearch";

const byId = (id) => document.getElementById(id);
const dark = () =>
  (localStorage.getItem("theme") ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function show() {
  document.body.classList.toggle("dark-mode", dark());
  document.body.classList.toggle("light-mode", !dark());
}

show();
byId("theme").addEventListener("click", () => {
  localStorage.setItem("theme", dark() ? "light" : "dark");
  show();
});

byId("menu").addEventListener("click", () => {
  const open = byId("pages").classList.toggle("open");
  byId("menu").setAttribute("aria-expanded", String(open));
});

let index;
const [search, found] = [byId("search"), byId("found")];
search.addEventListener("input", () => {
  if (index === undefined) {
    index = new MiniSearch({
      fields: ["title", "text", "page"],
      storeFields: ["title", "page", "url"],
      searchOptions: {
        boost: { title: 4, page: 2 },
        prefix: true,
        fuzzy: 0.15,
        combineWith: "AND",
      },
    });
    index.addAll(globalThis.SECTIONS);
  }
  const hits = index.search(search.value).slice(0, 12);
  found.replaceChildren(...hits.map(({ title, page, url }) => {
    const [item, link, small] = ["li", "a", "small"].map((name) => document.createElement(name));
    link.href = url;
    link.textContent = title;
    small.textContent = page;
    link.append(small);
    item.append(link);
    return item;
  }));
  found.hidden = hits.length === 0;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") found.hidden = true;
  if (event.key === "Enter" && event.target === search) found.querySelector("a")?.click();
  if (event.key === "/" && event.target === document.body) {
    event.preventDefault();
    search.focus();
  }
});
document.addEventListener("click", (event) => {
  if (!found.contains(event.target)) found.hidden = true;
});

if (byId("reference") !== null) {
  document.body.classList.add("reference");
  globalThis.Scalar.createApiReference("#reference", {
    content: globalThis.OPENAPI,
    agent: { disabled: true },
    defaultOpenAllTags: true,
    documentDownloadType: "none",
    hiddenClients: true,
    hideClientButton: true,
    hideDarkModeToggle: true,
    hideSearch: true,
    hideTestRequestButton: true,
    mcp: { disabled: true },
    showDeveloperTools: "never",
    telemetry: false,
    theme: "none",
    withDefaultFonts: false,
  });
}
