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
  ["within", 1],
  ["contract", 0],
]);

/** `src/http/routes/exec.ts` and `src/daemon.ts` lie in `http` and `daemon`. */
export function placeOf(path: string): string {
  return (path.split("/")[1] ?? "").replace(/\.ts$/, "");
}

/** A sentence for each import that points the wrong way, and for each place that has no height. */
export function violations(edges: readonly Edge[]): string[] {
  return edges.flatMap(({ from, to }) => {
    const [upper, lower] = [placeOf(from), placeOf(to)];
    const [height, depth] = [HEIGHTS.get(upper), HEIGHTS.get(lower)];
    if (height === undefined || depth === undefined) {
      return [`${from} imports ${to}: one of them lies in a place without a height`];
    }
    if (upper === lower || height > depth) return [];
    return [`${from} imports ${to}: ${upper} must not know ${lower}`];
  });
}

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

/** A sentence for each import of the core that points the wrong way. */
export function coreViolations(edges: readonly Edge[]): string[] {
  const roomOf = (path: string): string => (path.split("/")[2] ?? "").replace(/\.rs$/, "");
  return edges.flatMap(({ from, to }) => {
    const [upper, lower] = [roomOf(from), roomOf(to)];
    const [height, depth] = [upper, lower].map((room) => CORE_HEIGHTS.get(room) ?? 0);
    if (upper === lower || depth === 0 || Number(height) > Number(depth)) return [];
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
