/** A command that runs, or ran: its output, its stdin and its end. */

import { concat } from "./bytes.ts";
import { AlreadyAcked, GuestError, OutputGap, OutputTooLarge, UnknownExec } from "./errors.ts";
import { execPath, forgetExec, killExec } from "./exec_calls.ts";
import { BEHIND_ALL, followEvents, type FollowOptions } from "./exec_events.ts";
import { OutputPipe } from "./output_pipe.ts";
import type { Requests } from "./requests.ts";
import { signalName } from "./signal_names.ts";
import type { Exit } from "./sse.ts";
import { stdinStream } from "./stdin.ts";

/** What becomes of a command's output. */
export interface ChildOptions extends Pick<FollowOptions, "offset" | "onReconnect"> {
  /** `piped`, the default, gives `child.stdout`; `null` drops what comes. */
  readonly stdout?: "piped" | "null";
  /** The same for stderr. */
  readonly stderr?: "piped" | "null";
  /**
   * Bytes of each stream that may wait here for their reader; 4 MiB unless given. The two come over one connection: when
   * those of one are full, the other waits too, as with pipes, and the guest then drops what nobody reads in time.
   */
  readonly bufferBytes?: number;
  /** Called instead of the error where output was lost: bytes [from, to) of both streams together are gone. */
  readonly onGap?: (from: bigint, to: bigint) => void;
  /** Whether the guest keeps the result until `ack` is called. Otherwise it is acked once all output was read here. */
  readonly keep?: boolean;
}

/** How a command ended. */
export interface CommandStatus {
  /** Whether it exited with 0. */
  readonly success: boolean;
  /** Its exit code; 128 and the signal's number where a signal ended it. */
  readonly code: number;
  /** Name of the signal that ended it, such as "SIGKILL". */
  readonly signal: string | null;
  /** Whether something that it left behind may still write where nobody listens. */
  readonly writersMayBeAlive: boolean;
  /** Bytes that it wrote to both streams. */
  readonly offset: bigint;
}

/** How a command ended, and what it wrote. */
export interface CommandOutput extends CommandStatus {
  /** Standard output; empty where that is `null`. */
  readonly stdout: Uint8Array<ArrayBuffer>;
  /** Standard error; empty where that is `null`. */
  readonly stderr: Uint8Array<ArrayBuffer>;
}

/** How much to collect. */
export interface OutputOptions {
  /** Most bytes of both streams together, 64 MiB unless given; a command that writes more is killed. */
  readonly maxBytes?: number;
}

/** What `spawn` and `attach` add. */
export interface Following extends ChildOptions {
  /** Whether `child.stdin` may be written to. */
  readonly stdin?: "piped" | "null" | undefined;
  /** Stops following; the command goes on. */
  readonly detach?: AbortSignal | undefined;
  /** Kills the command. */
  readonly kill?: AbortSignal | undefined;
  /** Whether the end of a block's `await using` ends the command too. */
  readonly owned: boolean;
}

const BUFFER_BYTES = 4 * 1024 * 1024;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/**
 * A command of the guest, followed. `await using` kills what was spawned at the end of the block, where it still runs,
 * and leaves nothing of it in the guest; what was attached is left alone.
 */
export class ChildProcess implements AsyncDisposable {
  /** The id under which the guest knows it. */
  readonly id: string;
  /**
   * How it ended; comes when all output has come. Rejects where the stream cannot be followed to its end: `OutputGap`,
   * `ConnectionLost`, `UnknownExec` and other refusals.
   */
  readonly status: Promise<CommandStatus>;
  readonly #requests: Requests;
  readonly #options: Following;
  readonly #leaving = new AbortController();
  readonly #stdout: OutputPipe;
  readonly #stderr: OutputPipe;
  readonly #settled: Promise<void>;
  readonly #stdin: WritableStream<Uint8Array> | undefined;
  #acked: Promise<void> | undefined;
  #ended = false;

  /** Made by `command.spawn` and `guest.attach`. */
  constructor(requests: Requests, id: string, options: Following) {
    this.id = id;
    this.#requests = requests;
    this.#options = options;
    const { stdout, stderr, bufferBytes = BUFFER_BYTES, kill, detach } = options;
    this.#stdout = new OutputPipe(stdout === "null" ? 0 : bufferBytes);
    this.#stderr = new OutputPipe(stderr === "null" ? 0 : bufferBytes);
    if (options.stdin === "piped") this.#stdin = stdinStream(requests, id, this.#leaving.signal);
    onAbort(kill, () => void this.kill().catch(() => {}));
    onAbort(detach, () => this.#leaving.abort(detach?.reason));
    this.status = this.#follow();
    this.#settled = this.#settle();
    this.status.catch(() => {});
    this.#settled.catch(() => {});
  }

  /** Standard output, exact. Throws where it is `null`. */
  get stdout(): ReadableStream<Uint8Array<ArrayBuffer>> {
    if (this.#options.stdout === "null") throw new GuestError("Cannot get stdout: it is not piped");
    return this.#stdout.readable;
  }

  /** Standard error, exact. Throws where it is `null`. */
  get stderr(): ReadableStream<Uint8Array<ArrayBuffer>> {
    if (this.#options.stderr === "null") throw new GuestError("Cannot get stderr: it is not piped");
    return this.#stderr.readable;
  }

  /**
   * Standard input: bytes reach the child in order, each once, split into writes that the guest takes; a child that does
   * not read makes the writer wait. Closing it sends the end of file. A write fails with `StdinClosed` where the child
   * stopped reading, and with `ConnectionLost` where the connection broke in it. Throws where stdin is not piped.
   */
  get stdin(): WritableStream<Uint8Array> {
    if (this.#stdin === undefined) throw new GuestError("Cannot get stdin: it is not piped");
    return this.#stdin;
  }

  /**
   * Ends its process group, by SIGTERM and after ten seconds SIGKILL; whether anybody lived in it. Resolves when nobody
   * does, at the latest when SIGKILL was sent. What left the group is not reached.
   */
  async kill(signal?: AbortSignal): Promise<boolean> {
    return await killExec(this.#requests, this.id, signal);
  }

  /** Collects what comes on both streams, to its end; see `Command.output`. */
  async output({ maxBytes = MAX_OUTPUT_BYTES }: OutputOptions = {}): Promise<CommandOutput> {
    let room = maxBytes;
    const collect = async (pipe: OutputPipe): Promise<Uint8Array<ArrayBuffer>> => {
      const pieces: Uint8Array[] = [];
      for await (const piece of pipe.readable) {
        room -= piece.length;
        if (room < 0) {
          throw new OutputTooLarge(`Cannot collect the output: it has more than ${maxBytes} bytes`);
        }
        pieces.push(piece);
      }
      return concat(pieces);
    };
    try {
      const collected = Promise.all([
        this.#options.stdout === "null" ? new Uint8Array() : collect(this.#stdout),
        this.#options.stderr === "null" ? new Uint8Array() : collect(this.#stderr),
      ]);
      const [stdout, stderr] = await collected;
      const status = await this.status;
      // The result is here. Where the guest could not be told so it keeps its own.
      await this.#settled.catch(() => {});
      return { ...status, stdout, stderr };
    } catch (error) {
      if (error instanceof OutputTooLarge) await this[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Tells the guest that the result was taken, which it then forgets: call it when the result is stored. */
  async ack(): Promise<void> {
    this.#acked ??= forgetExec(this.#requests, this.id).catch((error) => {
      // An ack whose answer was lost, or somebody else's.
      if (!(error instanceof AlreadyAcked || error instanceof UnknownExec)) throw error;
    });
    await this.#acked;
  }

  /** Follows no longer: the streams and `status` fail with an abort error. The command goes on. */
  detach(): void {
    this.#leaving.abort();
  }

  /** See {@link ChildProcess}. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#options.owned) return this.detach();
    this.#stdout.drop();
    this.#stderr.drop();
    if (!this.#ended) await this.kill();
    await this.status.catch(() => {});
    await this.#settled.catch(() => {});
    this.#leaving.abort();
  }

  async #follow(): Promise<CommandStatus> {
    const { offset, onReconnect, stdout, stderr } = this.#options;
    const unread = stdout === "null" && stderr === "null" && offset === undefined;
    const from = unread ? BEHIND_ALL : offset;
    const signal = this.#leaving.signal;
    try {
      const path = execPath(this.id, "stream");
      const events = followEvents(this.#requests, path, { offset: from, signal, onReconnect });
      for await (const event of events) {
        if (event.event === "output") {
          await (event.stream === "stdout" ? this.#stdout : this.#stderr).write(event.bytes);
        } else if (event.event === "gap") {
          this.#lost(event.from, event.to);
        } else {
          this.#ended = true;
          this.#stdout.end();
          this.#stderr.end();
          return statusOf(event);
        }
      }
      throw new GuestError("Cannot follow the output: it ended without an exit");
    } catch (error) {
      this.#stdout.fail(error);
      this.#stderr.fail(error);
      throw error;
    }
  }

  #lost(from: bigint, to: bigint): void {
    if (this.#options.onGap === undefined) throw new OutputGap(from, to);
    this.#options.onGap(from, to);
  }

  /** Acks once the result is in the reader's hands. */
  async #settle(): Promise<void> {
    await this.status;
    if (this.#options.keep === true) return;
    await Promise.all([this.#stdout.drained, this.#stderr.drained]);
    await this.ack();
  }
}

function statusOf({ exit_code, signal, writers_may_be_alive, offset }: Exit): CommandStatus {
  return {
    success: exit_code === 0,
    code: exit_code ?? 128 + (signal ?? 0),
    signal: signal === null ? null : signalName(signal),
    writersMayBeAlive: writers_may_be_alive,
    offset,
  };
}

function onAbort(signal: AbortSignal | undefined, act: () => void): void {
  if (signal?.aborted) act();
  else signal?.addEventListener("abort", act, { once: true });
}
