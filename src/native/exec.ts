import type { Core } from "./core.ts";
import { decodeFacts, type Facts, type Spawn } from "./layout.ts";
import { E2BIG } from "./errno.ts";
import { checked } from "./status.ts";
import { EventKind, type Result } from "./wake.ts";

/** Number of the step at which the kernel refuses arguments. */
const EXECUTE = 9;

/** The steps of a start: `Step` in `native/src/process/child.rs`. */
const STEPS: ReadonlyMap<number, string> = new Map([
  [1, "make its pipes"],
  [2, "fork"],
  [3, "make its session"],
  [4, "set its descriptors"],
  [5, "drop supplementary groups"],
  [6, "become the group"],
  [7, "become the user"],
  [8, "enter the working directory"],
  [EXECUTE, "execute the program"],
]);

/** A child could not be started; nothing of it is left. */
export class SpawnError extends Error {
  /** What could not be done, as `execute the program`. */
  readonly step: string;
  /** The kernel's errno; negative for a failure inside the library. */
  readonly errno: number;

  /** Names the step and the errno. */
  constructor(step: string, errno: number) {
    super(`Cannot ${step}: errno ${errno}`);
    this.name = "SpawnError";
    this.step = step;
    this.errno = errno;
  }

  /** Arguments and variables that the kernel would refuse, and that are not shown to it. */
  static tooLong(): SpawnError {
    return new SpawnError(STEPS.get(EXECUTE) ?? "start", E2BIG);
  }
}

/** One started command, as the core holds it. */
export class NativeExec {
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
    const blob = core.starts.encode(spawn);
    const started: NativeExec[] = [];
    const { status, value } = await core.operation((token) => {
      const id = core.symbols.guestd_exec_start(blob, blob.length, token);
      if (id > 0) started.push(new NativeExec(core, id));
      return id;
    });
    const [exec] = started;
    if (status === 0 && exec !== undefined) return exec;
    if (exec !== undefined) exec.#forget();
    throw new SpawnError(STEPS.get(value) ?? "start", status);
  }

  /** What is known of it now; once it is collected, what was known then. */
  facts(): Facts {
    return this.#lastFacts ?? this.#readFacts();
  }

  #readFacts(): Facts {
    const { facts, symbols } = this.#core;
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
    const { value } = await this.#core.operation((token) =>
      this.#core.symbols.guestd_exec_kill(this.id, token)
    );
    return value === 1;
  }

  /** Writes to its stdin, then closes it if `eof`: the bytes written, and 0 or an errno. `data` is gone then. */
  writeStdin(data: Uint8Array<ArrayBuffer>, eof: boolean): Promise<Result> {
    return this.#core.operation((token) => {
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
