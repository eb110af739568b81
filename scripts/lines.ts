/**
 * Reads the line coverage that `build.sh coverage` has collected, in lcov's format.
 *
 * `lines.ts total ROOT FILE` prints how many lines of `src` and of `native/src` ran. `lines.ts beyond ROOT IDLE FILE`
 * prints the files of both that have a line which ran in FILE and not in IDLE.
 *
 * @module
 */

/** How often each line of each file ran; a line that several reports have ran as often as in the busiest. */
type Lines = Map<string, Map<number, number>>;

/** The places whose files are counted. */
const PLACES = ["src", "native/src"] as const;

function read(root: string, path: string): Lines {
  const files: Lines = new Map();
  let current = new Map<number, number>();
  for (const line of Deno.readTextFileSync(path).split("\n")) {
    if (line.startsWith("SF:")) {
      const name = line.slice(3).replace(`${root}/`, "");
      current = files.get(name) ?? new Map();
      if (PLACES.some((place) => name.startsWith(`${place}/`))) files.set(name, current);
    } else if (line.startsWith("DA:")) {
      const [number = 0, count = 0] = line.slice(3).split(",").map(Number);
      current.set(number, Math.max(count, current.get(number) ?? 0));
    }
  }
  return files;
}

function total(files: Lines): void {
  for (const place of PLACES) {
    const lines = [...files].filter(([name]) => name.startsWith(`${place}/`))
      .flatMap(([, counts]) => [...counts.values()]);
    const ran = lines.filter((count) => count > 0).length;
    console.log(`${place}: ${(100 * ran / lines.length).toFixed(1)} % of ${lines.length} lines`);
  }
}

function beyond(idle: Lines, busy: Lines): void {
  const names = [...busy].filter(([name, counts]) =>
    [...counts].some(([line, count]) => count > 0 && (idle.get(name)?.get(line) ?? 0) === 0)
  ).map(([name]) => name).sort();
  console.log([...names, `${names.length} files`].join("\n"));
}

const [command, root = "", ...paths] = Deno.args;
const [first, second] = paths.map((path) => read(root, path));
if (command === "total" && first !== undefined) total(first);
else if (command === "beyond" && first !== undefined && second !== undefined) beyond(first, second);
else throw new Error("Cannot read coverage: total ROOT FILE, or beyond ROOT IDLE FILE");
