/**
 * The rule of imports, as a function over a graph: main → daemon → http → rooms → native, everyone may import
 * config, log and contract, and these import nothing above them.
 */

/** One import of ours: paths from the root of the repository. */
export interface Edge {
  readonly from: string;
  readonly to: string;
  /** Whether only types are imported, which leaves nothing at run time. */
  readonly typeOnly?: boolean;
}

/** Height of each place in src/. An import goes to a lower place, or stays in the same one. */
const HEIGHTS: ReadonlyMap<string, number> = new Map([
  ["main", 8],
  ["daemon", 7],
  ["http", 6],
  ["bootstrap", 5],
  ["exec", 5],
  ["files", 5],
  ["tunnel", 5],
  ["guest", 5],
  ["native", 4],
  ["config", 3],
  ["settings", 2],
  ["log", 1],
  ["within", 0],
  ["contract", 0],
]);

/** The other end of the wire: what its rooms may import, and no room of the daemon imports them. */
const APART: ReadonlyMap<string, readonly string[]> = new Map([
  ["client", ["contract"]],
  ["ctl", ["client", "contract"]],
]);

/** Height of each room of the core in native/src/. What has none is for all, and uses no room. */
const CORE_HEIGHTS: ReadonlyMap<string, number> = new Map([
  ["exports", 5],
  ["core", 4],
  ["transfer", 3],
  ["tar", 2],
  ["connections", 1],
  ["file", 1],
  ["identity", 1],
  ["noise", 1],
  ["process", 1],
]);

/** The rules of `src/` and of the core; a place without a height is an error in the one, and for all in the other. */
const RULES = { src: { heights: HEIGHTS, depth: 1 }, native: { heights: CORE_HEIGHTS, depth: 2 } };

/** A sentence for each import that points the wrong way, and for each place of `src/` that has no height. */
export function violations(edges: readonly Edge[], of: keyof typeof RULES = "src"): string[] {
  const { heights, depth } = RULES[of];
  // `src/http/routes/exec.ts` and `src/daemon.ts` lie in `http` and `daemon`.
  const placeOf = (path: string): string => (path.split("/")[depth] ?? "").replace(/\.\w+$/, "");
  return edges.flatMap(({ from, to }) => {
    const [upper, lower] = [placeOf(from), placeOf(to)];
    if (of === "src" && (APART.has(upper) || APART.has(lower))) {
      const allowed = upper === lower || APART.get(upper)?.includes(lower);
      return allowed === true ? [] : [`${from} imports ${to}: ${upper} must not know ${lower}`];
    }
    const [above, below] = [heights.get(upper), heights.get(lower)];
    if (of === "src" && (above === undefined || below === undefined)) {
      return [`${from} imports ${to}: one of them lies in a place without a height`];
    }
    const common = of === "native" && below === undefined;
    if (upper === lower || common || (above ?? 0) > (below ?? 0)) return [];
    return [`${from} imports ${to}: ${upper} must not know ${lower}`];
  });
}

/**
 * The modules of one cycle of imports that exist at run time, first and last being the same; undefined where there is
 * none.
 */
export function findCycle(edges: readonly Edge[]): string[] | undefined {
  const targets = Map.groupBy(
    edges.filter(({ typeOnly }) => typeOnly !== true),
    ({ from }) => from,
  );
  const finished = new Set<string>();
  const visit = (path: string, trail: readonly string[]): string[] | undefined => {
    const at = trail.indexOf(path);
    if (at !== -1) return [...trail.slice(at), path];
    if (finished.has(path)) return undefined;
    for (const { to } of targets.get(path) ?? []) {
      const cycle = visit(to, [...trail, path]);
      if (cycle !== undefined) return cycle;
    }
    finished.add(path);
    return undefined;
  };
  for (const path of targets.keys()) {
    const cycle = visit(path, []);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}
