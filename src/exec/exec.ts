import type { Phase, StdinWrite } from "../contract/exec.ts";
import { exceeds } from "../contract/limits.ts";
import { Refusal } from "../contract/refusal.ts";
import { EPIPE, errnoText, ETIMEDOUT } from "../native/errno.ts";
import type { Facts, NativeExec } from "../native/exec.ts";
import type { Fingerprint } from "./launch.ts";
import { within } from "../within.ts";

/** What a command is made with. */
export interface ExecOptions
  extends Pick<Exec, "id" | "hasStdin" | "reap" | "fingerprint" | "native"> {
  /** Is told when its outcome is published. */
  readonly onPublished: (exec: Exec) => void;
}

/**
 * A registered command.
 *
 * Invariants:
 * - what its process did is asked of the core each time, so that no copy can drift; only `acked`
 *   and what follows from it live here;
 * - check and change of `acked` happen without an await between them;
 * - captured output is freed once it is acked, and the native side forgotten once it is collected,
 *   but neither while an answer is being read from it.
 */
export class Exec {
  /** Id minted by the client. */
  readonly id: string;
  /** Whether it was started with a stdin pipe. */
  readonly hasStdin: boolean;
  /** Whether its group is ended after its leader. */
  readonly reap: boolean;
  /** Its side in the core. */
  readonly native: NativeExec;
  /** What its start asked for. */
  readonly fingerprint: Fingerprint;
  readonly #startedMs = performance.now();
  #waiting: Set<() => void> | undefined;
  #readers = 0;
  #acked = false;
  #collected = false;

  /** A command that was just started. */
  constructor({ id, hasStdin, reap, fingerprint, native, onPublished }: ExecOptions) {
    this.id = id;
    this.hasStdin = hasStdin;
    this.reap = reap;
    this.fingerprint = fingerprint;
    this.native = native;
    native.onPublished(() => {
      this.stopWaiting();
      onPublished(this);
    });
  }

  /** What the core knows of it. */
  get facts(): Facts {
    return this.native.facts();
  }

  /** Where it is in its life. */
  get phase(): Phase {
    if (this.#acked) return "acked";
    return this.native.published ? "exited" : "running";
  }

  /** Milliseconds since its start, on a clock that never jumps. */
  get ageMs(): number {
    return performance.now() - this.#startedMs;
  }

  /** Waits until its outcome is published or {@link stopWaiting} is called, at most `ms`. */
  async untilPublished(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting ??= new Set();
    this.#waiting.add(resolve);
    await within(ms, promise, undefined);
    this.#waiting?.delete(resolve);
  }

  /** Lets everybody go who waits for the outcome. */
  stopWaiting(): void {
    for (const resolve of this.#waiting ?? []) resolve();
    // Thousands of acked execs are kept for a while: nothing of them that nobody needs.
    this.#waiting = undefined;
  }

  /**
   * Writes to its stdin and returns the number of bytes. Throws, in this order, `stdin_not_requested`,
   * `stdin_write_too_large` and `stdin_closed`; then what the write came to.
   */
  async writeStdin({ data, eof }: StdinWrite, maxBytes: number): Promise<number> {
    if (!this.hasStdin) {
      throw new Refusal("stdin_not_requested", "the exec was started without stdin");
    }
    const bytes = data ?? new Uint8Array();
    if (bytes.length > maxBytes) {
      const text = exceeds("the decoded write", maxBytes, "max_stdin_write_bytes");
      throw new Refusal("stdin_write_too_large", text);
    }
    const { status, value } = await this.native.writeStdin(bytes, eof);
    if (status === 0) return value;
    if (status === EPIPE) {
      throw new Refusal("stdin_closed", "stdin was closed, or the child stopped reading");
    }
    if (status === ETIMEDOUT) {
      const text = `the child did not read in time: ${value} bytes went`;
      throw new Refusal("stdin_write_timeout", text);
    }
    throw new Refusal("stdin_write_failed", `the write failed: ${errnoText(status)}`);
  }

  /** Marks it acked; the captured output is freed once nobody reads it. */
  ack(): void {
    this.#acked = true;
    this.#freeIfUnread();
  }

  /** Forgets its native side, once nobody reads it. */
  collect(): void {
    this.#collected = true;
    this.#freeIfUnread();
  }

  /** Pins the captured output, until what this gives is disposed of. */
  pin(): Disposable {
    this.#readers++;
    let pinned = true;
    return {
      [Symbol.dispose]: (): void => {
        if (!pinned) return;
        pinned = false;
        this.#readers--;
        this.#freeIfUnread();
      },
    };
  }

  #freeIfUnread(): void {
    if (this.#readers > 0) return;
    if (this.#collected) this.native.collect();
    else if (this.#acked) this.native.release();
  }
}
