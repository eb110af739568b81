import { createHash } from "node:crypto";
import { deepStrictEqual, strictEqual } from "node:assert/strict";
import fc from "fast-check";
import { putTar } from "../support/files_client.ts";
import { runs } from "../support/property.ts";
import { archive, type MemberSpec } from "../support/tar_archive.ts";
import { treeOf } from "../support/tree.ts";
import { withDaemon } from "../support/with_daemon.ts";

/** What the model has at a name; a hard link is the same object under another name. */
type Node =
  | { readonly kind: "dir" }
  | { readonly kind: "link"; readonly target: string }
  | { readonly kind: "file"; readonly content: string };

const NAMES = [
  "a",
  "b",
  "a/b",
  "a/c",
  "b/a",
  "a/b/c",
  "./b",
  "a/../c",
  "a//d/",
  "c/.",
  "../x",
  "/abs",
  "a/../../x",
  ".",
];
const TARGETS = ["a", "b", "c", "a/b", ".", "..", "../b", "../../x", "/abs", "a/../b", ""];

const memberArbitrary: fc.Arbitrary<MemberSpec> = fc.record({
  name: fc.constantFrom(...NAMES),
  type: fc.constantFrom("0", "0", "0", "5", "5", "2", "1", "6"),
  link: fc.constantFrom(...TARGETS),
  content: fc.constantFrom("", "one", "two"),
}).map(({ name, type, link, content }) => ({
  name,
  type,
  link: type === "1" || type === "2" ? link : "",
  content: type === "0" && !name.endsWith("/") ? content : "",
}));

/** The name without dots; null where it is absolute or leads out. */
function resolve(from: string, path: string): string | null {
  if (path.startsWith("/")) return null;
  const parts = from === "" ? [] : from.split("/");
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") parts.push(part);
    else if (parts.pop() === undefined) return null;
  }
  return parts.join("/");
}

/** What extracting gives; null where the archive is to be refused. */
function model(members: readonly MemberSpec[]): Map<string, Node> | null {
  const nodes = new Map<string, Node>();
  for (const { name: raw, type, link, content } of members) {
    const name = resolve("", String(raw));
    const isDir = type === "5" || (type === "0" && String(raw).endsWith("/"));
    if (name === null || type === "6") return null;
    if (name === "") {
      if (!isDir) return null;
      continue;
    }
    const parts = name.split("/");
    for (let depth = 1; depth < parts.length; depth++) {
      const above = parts.slice(0, depth).join("/");
      if ((nodes.get(above)?.kind ?? "dir") !== "dir") return null;
      nodes.set(above, { kind: "dir" });
    }
    const node = nodeOf(nodes, name, isDir ? "5" : type, String(link), String(content));
    const before = nodes.get(name);
    if (node === null || (before !== undefined && (before.kind === "dir") !== isDir)) return null;
    nodes.set(name, node);
  }
  return nodes;
}

function nodeOf(
  nodes: ReadonlyMap<string, Node>,
  name: string,
  type: string | undefined,
  link: string,
  content: string,
): Node | null {
  if (type === "5") return { kind: "dir" };
  if (type === "0") return { kind: "file", content };
  const parent = name.includes("/") ? name.slice(0, name.lastIndexOf("/")) : "";
  const target = resolve(type === "2" ? parent : "", link);
  if (target === null) return null;
  if (type === "2") return link === "" ? null : { kind: "link", target: link };
  const there = nodes.get(target);
  if (there === undefined || there.kind === "dir" || target === name) return null;
  // Another name of a symlink may lie where the same target leads out.
  return there.kind === "link" && resolve(parent, there.target) === null ? null : there;
}

/** The model in the form of `treeOf`. */
function linesOf(nodes: ReadonlyMap<string, Node>): string[] {
  const first = new Map<Node, string>();
  return [...nodes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, node]) => {
    if (node.kind === "dir") return `${name}/`;
    if (node.kind === "link") return `${name} -> ${node.target}`;
    const met = first.get(node);
    if (met === undefined) first.set(node, name);
    const hash = createHash("sha256").update(node.content).digest("hex").slice(0, 16);
    return `${name} ${node.content.length} ${hash}${met === undefined ? "" : ` = ${met}`}`;
  });
}

withDaemon.test("of any archive the verdict and exactly the files are those of the model", async ({ daemon, scratch }) => {
  const root = scratch.join("root");
  const verdicts = new Set<number>();
  await fc.assert(
    fc.asyncProperty(fc.array(memberArbitrary, { maxLength: 7 }), async (members) => {
      const wanted = model(members);
      const answer = await putTar(daemon, root, archive(members));
      const said = await answer.text();
      verdicts.add(answer.status);
      try {
        strictEqual(answer.status, wanted === null ? 400 : 204, said);
        if (wanted === null) return deepStrictEqual(treeOf(scratch.path), []);
        deepStrictEqual(treeOf(root), linesOf(wanted));
        // What was extracted comes back, and is the same when it is extracted again.
        const packed = await (await daemon.guest.downloadTar(root)).bytes();
        Deno.removeSync(root, { recursive: true });
        strictEqual((await putTar(daemon, root, packed)).status, 204);
        deepStrictEqual(treeOf(root), linesOf(wanted));
      } finally {
        await new Deno.Command("rm", { args: ["-rf", root] }).output();
      }
    }),
    runs(100),
  );
  deepStrictEqual([...verdicts].sort(), [204, 400]);
});
