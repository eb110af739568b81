import type { Core } from "./core.ts";
import { checked, E2BIG } from "./errno.ts";
import { EventKind, type Result } from "./wake.ts";

/** A start request for the core: everything decided, nothing of the wire. */
export interface Spawn {
  /** The argument list; the first is looked up in PATH unless it holds a slash. */
  readonly argv: readonly string[];
  /** The child's whole environment. */
  readonly environment: EncodedTexts;
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
/** An order begins with its flags, uid, gid, timeout (f64) and the numbers of arguments and of variables. */
const HEAD_BYTES = 28;

/** Texts as a start has them. */
export interface EncodedTexts {
  /** How many there are. */
  readonly count: number;
  /** Each its length in bytes (u32), and its UTF-8. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Encodes an environment for {@link Spawn}. */
export function encodeEnvironment(environment: ReadonlyMap<string, string>): EncodedTexts {
  return encodeTexts([...environment].map(([name, value]) => `${name}=${value}`));
}

function encodeTexts(texts: readonly string[]): EncodedTexts {
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
  return { count: texts.length, bytes: encoded.slice(0, at) };
}

/** The start as `native/src/process/exec.rs` reads it. */
function encodeSpawn(spawn: Spawn): Uint8Array<ArrayBuffer> {
  const { environment } = spawn;
  const argv = encodeTexts(spawn.argv);
  const cwd = encodeTexts(spawn.cwd === null ? [] : [spawn.cwd]);
  const parts = [argv, environment, cwd].map(({ bytes }) => bytes);
  const blob = new Uint8Array(parts.reduce((sum, { length }) => sum + length, HEAD_BYTES));
  const view = new DataView(blob.buffer);
  const flags = (spawn.stdin ? FLAGS.stdin : 0) | (spawn.reap ? FLAGS.reap : 0) |
    (spawn.uid === null ? 0 : FLAGS.uid) | (spawn.gid === null ? 0 : FLAGS.gid) |
    (spawn.cwd === null ? 0 : FLAGS.cwd) | (spawn.timeoutSecs === null ? 0 : FLAGS.timeout);
  view.setUint32(0, flags, true);
  view.setUint32(4, spawn.uid ?? 0, true);
  view.setUint32(8, spawn.gid ?? 0, true);
  view.setFloat64(12, spawn.timeoutSecs ?? 0, true);
  view.setUint32(20, argv.count, true);
  view.setUint32(24, environment.count, true);
  let at = HEAD_BYTES;
  for (const part of parts) {
    blob.set(part, at);
    at += part.length;
  }
  return blob;
}

/** A digest of a text under a key of this process's own: a whole number of 31 bits. */
export function digestOf({ symbols }: Core, text: string): number {
  const bytes = new TextEncoder().encode(text);
  return checked("make a digest", symbols.guestd_digest(bytes, bytes.length));
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

/** The steps of a start that are about a word of its request. */
export const SpawnStep = { enter: 8, execute: 9 } as const;

/** The steps of a start: `Step` in `native/src/process/child.rs`. */
const STEPS: ReadonlyMap<number, string> = new Map([
  [1, "make its pipes"],
  [2, "fork"],
  [3, "make its session"],
  [4, "set its descriptors"],
  [5, "drop supplementary groups"],
  [6, "become the group"],
  [7, "become the user"],
  [SpawnStep.enter, "enter the working directory"],
  [SpawnStep.execute, "execute the program"],
]);

/** A child could not be started; nothing of it is left. */
export class SpawnError extends Error {
  /** Number of the step, as in {@link SpawnStep}. */
  readonly step: number;
  /** What could not be done, as `execute the program`. */
  readonly what: string;
  /** The kernel's errno; negative for a failure inside the library. */
  readonly errno: number;

  /** Names the step and the errno. */
  constructor(step: number, errno: number) {
    const what = STEPS.get(step) ?? "start";
    super(`Cannot ${what}: errno ${errno}`);
    this.name = "SpawnError";
    this.step = step;
    this.what = what;
    this.errno = errno;
  }

  /** Arguments and variables that the kernel would refuse, and that are not shown to it. */
  static tooLong(): SpawnError {
    return new SpawnError(SpawnStep.execute, E2BIG);
  }
}

/** One started command, as the core holds it. */
export class NativeExec {
  /** Where facts are written, for the moment of one call. */
  static readonly #facts = new Uint8Array(FACTS_BYTES);
  readonly #core: Core;
  /** Handle. */
  readonly id: number;
  #published = false;
  #onPublished: (() => void) | undefined;
  #lastFacts: Facts | undefined;

  private constructor(core: Core, id: number) {
    this.#core = core;
    this.id = id;
    // Listening from the first moment: a short command is published before its start is told.
    core.wake.listen(EventKind.published, id, () => {
      this.#published = true;
      // It happens once.
      this.#forget();
      this.#onPublished?.();
      this.#onPublished = undefined;
    });
  }

  /** Starts a command. Throws {@link SpawnError}. */
  static async start(core: Core, spawn: Spawn): Promise<NativeExec> {
    const blob = encodeSpawn(spawn);
    const started: NativeExec[] = [];
    const { status, value } = await core.wake.operation((token) => {
      const id = core.symbols.guestd_exec_start(blob, blob.length, token);
      if (id > 0) started.push(new NativeExec(core, id));
      return id;
    });
    const [exec] = started;
    if (status === 0 && exec !== undefined) return exec;
    if (exec !== undefined) exec.#forget();
    throw new SpawnError(value, status);
  }

  /** What is known of it now; once it is collected, what was known then. */
  facts(): Facts {
    return this.#lastFacts ?? this.#readFacts();
  }

  #readFacts(): Facts {
    const [facts, { symbols }] = [NativeExec.#facts, this.#core];
    checked("read an exec's facts", symbols.guestd_exec_facts(this.id, facts, facts.length));
    return decodeFacts(new DataView(facts.buffer));
  }

  /** Whether its outcome is final. Cheap once it is, for that never changes again. */
  get published(): boolean {
    return this.#published ||= this.facts().published;
  }

  /** Calls `listener` when its outcome is published: at once, if it is already. */
  onPublished(listener: () => void): void {
    if (this.#published) listener();
    else this.#onPublished = listener;
  }

  /** Copies captured bytes of stdout (0) or stderr (1) from `offset`; returns their number. */
  output(stream: 0 | 1, offset: number, out: Uint8Array<ArrayBuffer>): number {
    const { guestd_exec_output: read } = this.#core.symbols;
    return checked("read captured output", read(this.id, stream, offset, out, out.length));
  }

  /** Frees what was captured, and the stream's window once nobody reads it. */
  release(): void {
    this.#core.symbols.guestd_exec_release(this.id);
  }

  /** Forgets it: the handle names nothing from now on, but for streams that are still open. */
  collect(): void {
    this.#lastFacts = this.#readFacts();
    this.#forget();
    this.#core.symbols.guestd_exec_collect(this.id);
  }

  /** Ends its group; whether it had a live member. Answers once none is left or SIGKILL was sent. */
  async kill(): Promise<boolean> {
    const { value } = await this.#core.wake.operation((token) =>
      this.#core.symbols.guestd_exec_kill(this.id, token)
    );
    return value === 1;
  }

  /** Writes to its stdin, then closes it if `eof`: the bytes written, and 0 or an errno. `data` is gone then. */
  writeStdin(data: Uint8Array<ArrayBuffer>, eof: boolean): Promise<Result> {
    return this.#core.wake.operation((token) => {
      const { guestd_exec_stdin: write } = this.#core.symbols;
      const started = write(this.id, data, data.length, eof ? 1 : 0, token);
      // The core has a copy, and the write may wait for seconds.
      data.buffer.transfer(0);
      return started;
    });
  }

  #forget(): void {
    this.#core.wake.ignore(EventKind.published, this.id);
  }
}
