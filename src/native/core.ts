import { checked, errnoText } from "./errno.ts";
import { openLibrary, type Symbols } from "./library.ts";
import { EventKind, Wake } from "./wake.ts";

/** What the core is opened with. */
export interface CoreSettings {
  /** Captured per stream, in bytes. */
  readonly captureBytes: number;
  /** The stream's replay window, in bytes. */
  readonly windowBytes: number;
  /** From the leader's exit until its outcome is published though pipes are open, in seconds. */
  readonly lingerSecs: number;
  /** From SIGTERM to SIGKILL, in seconds. */
  readonly graceSecs: number;
  /** From the arrival of a stdin write until it is given up, in seconds. */
  readonly stdinSecs: number;
  /** Directory for captured output that is too much for memory. */
  readonly spoolDir: string;
  /** Called with what went wrong when such output has to stay in memory. */
  readonly onSpoolFailed: (cause: string) => void;
}

/** What one reading of a stream gives at most, in bytes. */
const RECORD_BYTES = 64 * 1024;

/** The opened native core. One a process. */
export class Core {
  /** The library's functions. */
  readonly symbols: Symbols;
  /** Events from the native threads. */
  readonly wake: Wake;
  /** Where records and captured output are written, for the moment until they are encoded. */
  readonly records: Uint8Array<ArrayBuffer> = new Uint8Array(RECORD_BYTES);
  readonly #events: Promise<void>;

  private constructor(symbols: Symbols) {
    this.symbols = symbols;
    this.wake = new Wake(symbols);
    this.wake.listen(EventKind.orphans, 0, () => this.reapOrphans());
    this.#events = this.wake.run();
  }

  /** Loads the library at `path` and starts its threads. Throws `NativeError`, or `Error` on a kernel that lacks a call. */
  static open(path: string | URL, settings: CoreSettings): Core {
    const { symbols } = openLibrary(path);
    const missing = missingCall(symbols);
    if (missing !== "") {
      throw new Error(`Cannot run here: this kernel has no ${missing}, or does not permit it`);
    }
    const { captureBytes, windowBytes, lingerSecs, graceSecs, stdinSecs } = settings;
    const spool = new TextEncoder().encode(settings.spoolDir);
    checked(
      "open the native core",
      symbols.guestd_open(
        captureBytes,
        windowBytes,
        lingerSecs,
        graceSecs,
        stdinSecs,
        spool,
        spool.length,
      ),
    );
    const core = new Core(symbols);
    core.wake.onSpoolFailed((errno) => settings.onSpoolFailed(errnoText(errno)));
    return core;
  }

  /** Reaps orphans that ended. They are children of the main thread, and so is this call. */
  reapOrphans(): void {
    this.symbols.guestd_reap_orphans();
  }

  /** Whether the daemon was started with a signal ignored, as nohup does. */
  isIgnored(signal: number): boolean {
    return this.symbols.guestd_is_ignored(signal) === 1;
  }

  /** Tells the service manager at `address`, as NOTIFY_SOCKET names it, that the daemon is ready. Throws `NativeError`. */
  ready(address: string): void {
    const bytes = new TextEncoder().encode(address);
    checked("tell the service manager", this.symbols.guestd_ready(bytes, bytes.length));
  }

  /** The guest is about to be frozen: a forward jump of the wall clock counts from now on. */
  suspended(): void {
    this.symbols.guestd_suspended();
  }

  /** The guest goes on: commands whose time ran out meanwhile are ended at once. */
  resumed(): void {
    this.symbols.guestd_resumed();
  }

  /** Lets every pipe flow from now on: the daemon is ending. */
  drain(): void {
    this.symbols.guestd_drain();
  }

  /**
   * SIGTERM to every group, SIGKILL `graceMs` later; ends once each is empty or was sent it, unless it is called again
   * before that: the shorter time counts.
   */
  async endAll(graceMs: number): Promise<void> {
    await this.wake.operation((token) => this.symbols.guestd_end_all(graceMs, token));
  }

  /** Gives memory back that is not needed just now; takes a few milliseconds. */
  trim(): void {
    this.symbols.guestd_trim();
  }

  /** Memory that no file backs, in bytes; 0 where the system does not tell. */
  get ownBytes(): number {
    return checked("measure the memory", this.symbols.guestd_own_kib()) * 1024;
  }

  /** Writes everything to disk and powers the guest off. Throws `NativeError` if it cannot. */
  powerOff(): void {
    checked("power off", this.symbols.guestd_power_off());
  }

  /** Ends the native threads. Children go on. */
  async close(): Promise<void> {
    this.symbols.guestd_close();
    await this.#events;
  }
}

/** The first system call that the core needs and cannot make, with the kernel that has it; empty where there is none. */
function missingCall(symbols: Symbols): string {
  const name = new Uint8Array(64);
  const length = checked(
    "ask for what is missing",
    symbols.guestd_missing_call(name, name.length),
  );
  return new TextDecoder().decode(name.subarray(0, length));
}
