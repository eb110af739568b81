/**
 * What the guest's passwd file says about a user id.
 *
 * The file is read with the guest's own eyes each time it may have changed, because a `useradd` in the guest has to
 * count for the next command. It is never trusted: a line that makes no sense is no entry, a file that cannot be read
 * has none.
 *
 * @module
 */

/** One usable line of a passwd file. */
export interface PasswdEntry {
  /** The login name, never empty. */
  readonly name: string;
  /** 0 to 4294967294; the largest uint32 is the kernel's "unchanged" and nobody's id. */
  readonly uid: number;
  /** The primary group, with the same range as `uid`. */
  readonly gid: number;
  /** The home directory, empty where the line leaves it empty. */
  readonly home: string;
  /** The login shell, empty where the line leaves it empty. */
  readonly shell: string;
}

/** Looks users up by id. */
export interface PasswdLookup {
  /** The first entry of this id, as getpwuid(3) has it; undefined where there is none. */
  entry(uid: number): PasswdEntry | undefined;
}

const LARGEST_ID = 0xffff_fffe;

/**
 * Parses the bytes of a passwd file: entries by id, the first line of an id counts.
 *
 * Skipped are comments, NIS lines (`+`, `-`), lines without a name or with an id that is not a plain decimal uint32,
 * and lines with a NUL, which no environment could carry. Missing fields at the end of a line are empty ones, bytes
 * that are not UTF-8 become U+FFFD.
 */
export function parsePasswd(bytes: Uint8Array): Map<number, PasswdEntry> {
  const entries = new Map<number, PasswdEntry>();
  for (const line of new TextDecoder().decode(bytes).split("\n")) {
    const entry = parseLine(line);
    if (entry !== undefined && !entries.has(entry.uid)) entries.set(entry.uid, entry);
  }
  return entries;
}

function parseLine(line: string): PasswdEntry | undefined {
  if (/^[#+-]/.test(line) || line.includes("\0")) return undefined;
  const [name = "", , uidText = "", gidText = "", , home = "", shell = ""] = line.split(":");
  const uid = parseId(uidText);
  const gid = parseId(gidText);
  if (name === "" || uid === undefined || gid === undefined) return undefined;
  return { name, uid, gid, home, shell };
}

function parseId(text: string): number | undefined {
  if (!/^[0-9]+$/.test(text)) return undefined;
  const id = Number(text);
  return id <= LARGEST_ID ? id : undefined;
}

/** The group a command of this user gets when it names none: the primary group, without an entry the user's own id. */
export function primaryGid(passwd: PasswdLookup, uid: number): number {
  return passwd.entry(uid)?.gid ?? uid;
}

/** A file that was written so shortly before it was read may be written again without another time, in milliseconds. */
const SETTLED_MS = 1000;

/**
 * The passwd file of the guest.
 *
 * Invariant: `#entries` is what the file said when it was looked at last, or later. A look-up costs one stat(2), and a
 * read only where that tells of a change or cannot rule one out. An entry is the same object for as long as it does not.
 */
export class PasswdFile implements PasswdLookup {
  readonly #path: string;
  #seen = "";
  #entries: ReadonlyMap<number, PasswdEntry> = new Map();

  /** Nothing is read before the first look-up. */
  constructor(path: string) {
    this.#path = path;
  }

  /** The first entry of this id in the file as it is now. */
  entry(uid: number): PasswdEntry | undefined {
    this.#refresh();
    return this.#entries.get(uid);
  }

  #refresh(): void {
    try {
      const { dev, ino, size, mtime } = Deno.statSync(this.#path);
      const writtenMs = mtime?.getTime() ?? 0;
      const now = [dev, ino, size, writtenMs].join();
      if (now === this.#seen) return;
      this.#entries = parsePasswd(Deno.readFileSync(this.#path));
      this.#seen = Math.abs(Date.now() - writtenMs) > SETTLED_MS ? now : "";
    } catch {
      // A guest without a passwd file is a guest all the same: its users are numbers.
      this.#entries = new Map();
      this.#seen = "";
    }
  }
}
