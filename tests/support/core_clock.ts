/**
 * The clocks of a daemon's core, moved from outside: the core adds two numbers of its memory to what the kernel says,
 * and root can write them.
 */

import { localSymbol } from "./elf.ts";

const LIBRARY = "libguestd.so";

export class CoreClock {
  readonly #pid: number;
  readonly #wallAt: number;
  readonly #bootAt: number;
  #wallMs = 0;
  #bootMs = 0;

  /** Finds them in the memory of process `pid`. */
  constructor(pid: number) {
    this.#pid = pid;
    const maps = Deno.readTextFileSync(`/proc/${pid}/maps`).split("\n");
    const first = maps.find((line) => line.endsWith(`/${LIBRARY}`));
    if (first === undefined) throw new Error("Cannot find the core in the daemon's memory");
    const [range = "", , , , , path = ""] = first.split(/\s+/);
    const [base = ""] = range.split("-");
    this.#wallAt = parseInt(base, 16) + localSymbol(path, "WALL_AHEAD_NS");
    this.#bootAt = parseInt(base, 16) + localSymbol(path, "BOOT_AHEAD_NS");
  }

  /** Sets the wall clock on by so much, or back. */
  setWall(byMs: number): void {
    this.#write(this.#wallAt, this.#wallMs += byMs);
  }

  /** Lets time pass, on both clocks. */
  pass(ms: number): void {
    // The wall clock is measured against the boot clock, and goes on with it.
    this.setWall(ms);
    this.#write(this.#bootAt, this.#bootMs += ms);
  }

  #write(at: number, ms: number): void {
    using memory = Deno.openSync(`/proc/${this.#pid}/mem`, { write: true });
    memory.seekSync(at, Deno.SeekMode.Start);
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setBigInt64(0, BigInt(ms) * 1_000_000n, true);
    if (memory.writeSync(bytes) !== bytes.length) throw new Error("Cannot move the clock");
  }
}
