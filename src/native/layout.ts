/** A start request for the core: everything decided, nothing of the wire. */
export interface Spawn {
  /** The argument list; the first is looked up in PATH unless it holds a slash. */
  readonly argv: readonly string[];
  /** The child's whole environment. */
  readonly environment: ReadonlyMap<string, string>;
  /** Working directory; null means the daemon's own. */
  readonly cwd: string | null;
  /** User id to become; null means the daemon's own. */
  readonly uid: number | null;
  /** Group id to become; null means the daemon's own. */
  readonly gid: number | null;
  /** Whether the child gets a pipe as its stdin. */
  readonly stdin: boolean;
  /** Whether the group is ended once the leader has exited. */
  readonly reap: boolean;
  /** Wall-clock budget in seconds; null means none. */
  readonly timeoutSecs: number | null;
}

const FLAGS = { stdin: 1, reap: 2, uid: 4, gid: 8, cwd: 16, timeout: 32 } as const;
/** flags, uid, gid, timeout (f64), number of arguments and of variables. */
const HEAD_BYTES = 28;

/** The encoding of an environment is kept up to this size, in bytes: the base environment's, a few variables. */
const KEPT_BYTES = 64 << 10;

/** Writes texts as a start has them: each its length in bytes (u32), and its UTF-8. */
function encodeTexts(texts: readonly string[]): Uint8Array<ArrayBuffer> {
  // A UTF-16 unit makes at most three bytes of UTF-8.
  const most = texts.reduce((sum, text) => sum + 4 + 3 * text.length, 0);
  const encoded = new Uint8Array(most);
  const view = new DataView(encoded.buffer);
  const encoder = new TextEncoder();
  let at = 0;
  for (const text of texts) {
    const { written } = encoder.encodeInto(text, encoded.subarray(at + 4));
    view.setUint32(at, written, true);
    at += 4 + written;
  }
  return encoded.subarray(0, at);
}

/**
 * Encodes starts. Commands that get the same environment, the very same object, mostly follow each other: its encoding
 * is kept for the next one.
 *
 * Invariant: `#encoded` is the encoding of `#environment`, which nobody changes once a start was given it; a large one
 * is not kept, for a guest has little memory.
 */
export class SpawnEncoder {
  #environment: ReadonlyMap<string, string> | undefined;
  #encoded: Uint8Array<ArrayBuffer> = new Uint8Array();

  /** The start as `native/src/process/request.rs` reads it. */
  encode(spawn: Spawn): Uint8Array<ArrayBuffer> {
    const { environment } = spawn;
    if (environment === this.#environment) return encodeSpawn(spawn, this.#encoded);
    const encoded = encodeTexts([...environment].map(([name, value]) => `${name}=${value}`));
    if (encoded.length <= KEPT_BYTES) {
      this.#encoded = encoded.slice();
      this.#environment = environment;
    }
    return encodeSpawn(spawn, encoded);
  }
}

function encodeSpawn(
  spawn: Spawn,
  variables: Uint8Array<ArrayBuffer>,
): Uint8Array<ArrayBuffer> {
  const argv = encodeTexts(spawn.argv);
  const cwd = encodeTexts(spawn.cwd === null ? [] : [spawn.cwd]);
  const blob = new Uint8Array(HEAD_BYTES + argv.length + variables.length + cwd.length);
  const view = new DataView(blob.buffer);
  const flags = (spawn.stdin ? FLAGS.stdin : 0) | (spawn.reap ? FLAGS.reap : 0) |
    (spawn.uid === null ? 0 : FLAGS.uid) | (spawn.gid === null ? 0 : FLAGS.gid) |
    (spawn.cwd === null ? 0 : FLAGS.cwd) | (spawn.timeoutSecs === null ? 0 : FLAGS.timeout);
  view.setUint32(0, flags, true);
  view.setUint32(4, spawn.uid ?? 0, true);
  view.setUint32(8, spawn.gid ?? 0, true);
  view.setFloat64(12, spawn.timeoutSecs ?? 0, true);
  view.setUint32(20, spawn.argv.length, true);
  view.setUint32(24, spawn.environment.size, true);
  blob.set(argv, HEAD_BYTES);
  blob.set(variables, HEAD_BYTES + argv.length);
  blob.set(cwd, HEAD_BYTES + argv.length + variables.length);
  return blob;
}

/** What the core knows of an exec; it only grows. */
export interface Facts {
  /** The leader has ended. */
  readonly exited: boolean;
  /** The outcome is final. */
  readonly published: boolean;
  /** It was published though the output pipes were still open. */
  readonly writersMayBeAlive: boolean;
  /** A stream was longer than what is captured of one. */
  readonly truncated: boolean;
  /** Exit code, if the leader ended by itself. */
  readonly exitCode: number | null;
  /** Signal, if one ended the leader. */
  readonly signal: number | null;
  /** The leader's pid, which is also the group's. */
  readonly pid: number;
  /** Start in seconds since the epoch. */
  readonly startedAt: bigint;
  /** Bytes captured of stdout and of stderr. */
  readonly captured: readonly [number, number];
  /** Bytes published on both streams. */
  readonly total: bigint;
}

/** Size of the facts in a buffer, in bytes: `FACTS_SIZE` in `native/src/exports/exec.rs`. */
export const FACTS_BYTES = 56;

/** Reads facts as `guestd_exec_facts` writes them. */
export function decodeFacts(view: DataView): Facts {
  const flags = view.getUint32(0, true);
  const has = (bit: number): boolean => (flags & bit) !== 0;
  const status = view.getInt32(4, true);
  return {
    exited: has(1),
    published: has(2),
    writersMayBeAlive: has(4),
    truncated: has(8),
    exitCode: has(1) && !has(16) ? status : null,
    signal: has(16) ? status : null,
    pid: view.getUint32(8, true),
    startedAt: view.getBigUint64(16, true),
    captured: [Number(view.getBigUint64(24, true)), Number(view.getBigUint64(32, true))],
    total: view.getBigUint64(40, true),
  };
}
