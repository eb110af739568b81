/**
 * What lies beneath a directory, in a form that compares: names, kinds, contents, modes, times, links. `find` lists it,
 * since Deno sees no names that are not UTF-8.
 */

/** What is compared besides kinds, names and contents. */
export interface TreeOptions {
  /** Modes and times of modification, in whole seconds; of the root too. */
  readonly stat?: boolean;
}

const FIELDS = ["%P", "%y", "%s", "%m", "%T@", "%l", "%i"] as const;

/**
 * One line for each name beneath `root`, sorted. Bytes of names are shown as one char each. Of files with the same
 * inode all name the first.
 */
export function treeOf(root: string, options: TreeOptions = {}): string[] {
  const listed = output("find", root, "-printf", FIELDS.join("\\0") + "\\0").split("\0");
  const sums = new Map(
    output("find", root, "-type", "f", "-exec", "sha256sum", "--zero", "{}", "+")
      .split("\0").filter((line) => line !== "")
      .map((line) => [line.slice(66 + root.length + 1), line.slice(0, 16)]),
  );
  const entries: string[][] = [];
  for (let at = 0; at + FIELDS.length <= listed.length; at += FIELDS.length) {
    entries.push(listed.slice(at, at + FIELDS.length));
  }
  entries.sort(([a = ""], [b = ""]) => (a < b ? -1 : 1));
  const first = new Map<string, string>();
  return entries.flatMap(([name = "", kind, size, mode, time = "", link, inode = ""]) => {
    const stat = options.stat === true && kind !== "l"
      ? ` ${mode} ${time.replace(/\..*$/, "")}`
      : "";
    if (name === "") return stat === "" ? [] : [`.${stat}`];
    if (kind === "d") return [`${name}/${stat}`];
    if (kind === "l") return [`${name} -> ${link}`];
    if (kind !== "f") return [`${name} is of kind ${kind}`];
    const met = first.get(inode);
    if (met === undefined) first.set(inode, name);
    return [`${name} ${size} ${sums.get(name)}${stat}${met === undefined ? "" : ` = ${met}`}`];
  });
}

function output(command: string, ...args: string[]): string {
  const env = { LC_ALL: "C" };
  const { success, stdout, stderr } = new Deno.Command(command, { args, env }).outputSync();
  if (!success) throw new Error(`Cannot run ${command}: ${new TextDecoder().decode(stderr)}`);
  // In pieces: a call takes only so many arguments.
  let text = "";
  for (let at = 0; at < stdout.length; at += 8192) {
    text += String.fromCharCode(...stdout.subarray(at, at + 8192));
  }
  return text;
}
