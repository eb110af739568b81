/** A guest, as programs drive it. */

import type { PollResponse, StdinResponse } from "../contract/exec.ts";
import type { Limits } from "../contract/limits.ts";
import type { Health, ProcGroup, ProcsResponse } from "../contract/system.ts";
import { ChildProcess, type Following } from "./child.ts";
import { Command, type CommandOptions } from "./command.ts";
import {
  ackExec,
  execPath,
  forgetExec,
  killExec,
  type Outcome,
  pollExec,
  writeStdin,
} from "./exec_calls.ts";
import { followEvents, type FollowOptions } from "./exec_events.ts";
import { FetchTransport } from "./fetch_transport.ts";
import {
  type Content,
  type FileSource,
  type LineRange,
  readFile,
  readLines,
  writeFile,
  type WriteFileOptions,
} from "./files.ts";
import { Hooks } from "./hooks.ts";
import { Requests } from "./requests.ts";
import type { ExecEvent } from "./sse.ts";
import { SocketTransport } from "./socket_transport.ts";
import { stdinStream } from "./stdin.ts";
import type { Transport } from "./transport.ts";
import {
  downloadTar,
  downloadTree,
  type TreeEntry,
  type TreeSource,
  uploadTar,
  uploadTree,
} from "./trees.ts";
import { type ConnectOptions, openTunnel, type Tunnel } from "./tunnel.ts";
import { vsockAddress } from "./vsock.ts";

/** How to reach a guest. */
export interface GuestOptions {
  /** The bearer token that the run hook installed. Without one only `health`, `schema` and `hooks` are answered. */
  readonly token?: string | undefined;
  /** How requests travel; unless given by `fetch`, to a vsock by sockets. */
  readonly transport?: Transport | undefined;
  /** How long a failed connection is tried again, in milliseconds: 30,000 unless given, 0 for not at all. */
  readonly retryMs?: number | undefined;
  /** Path of the platform's hooks; `/platform/runtime/v1` unless given. */
  readonly hookPrefix?: string | undefined;
}

/** What the guest publishes of itself, beside JSON Schemas of everything that it takes and answers. */
export interface SchemaDocument {
  /** Version of the daemon. */
  readonly daemon_version: string;
  /** Version of the protocol: "1". */
  readonly protocol_version: string;
  /** The limits in force. */
  readonly limits: Limits;
  /** Everything else. */
  readonly [key: string]: unknown;
}

/** How to attach to a command. */
export interface AttachOptions extends Omit<Following, "owned" | "kill" | "detach"> {
  /** Detaches when it aborts; the command goes on. */
  readonly signal?: AbortSignal;
}

const RETRY_MS = 30_000;

/** A guest daemon at an address. Nothing is sent before it is asked for something. */
export class Guest {
  /** The platform's lifecycle hooks. */
  readonly hooks: Hooks;
  readonly #requests: Requests;

  /**
   * Takes the daemon's base URL, such as `http://127.0.0.1:9000`, or `vsock-unix:PATH:PORT` or `vsock:CID:PORT` of a guest
   * without a network. Throws a TypeError for what is none of these.
   */
  constructor(url: string | URL, options: GuestOptions = {}) {
    const vsock = vsockAddress(String(url));
    const { token, retryMs = RETRY_MS } = options;
    const transport = options.transport ??
      (vsock === undefined ? new FetchTransport() : new SocketTransport({ vsock }));
    const base = vsock === undefined ? new URL(url).href.replace(/\/+$/, "") : "http://vsock";
    this.#requests = new Requests(base, token, transport, retryMs);
    this.hooks = new Hooks(this.#requests, options.hookPrefix ?? "/platform/runtime/v1");
  }

  /** A program with its options, as `Deno.Command` has them. Nothing runs before `output` or `spawn`. */
  command(program: string, options: CommandOptions = {}): Command {
    return new Command(this.#requests, [program, ...options.args ?? []], false, options);
  }

  /** A line for the guest's `/bin/sh -c`. */
  shell(line: string, options: Omit<CommandOptions, "args"> = {}): Command {
    return new Command(this.#requests, [line], true, options);
  }

  /**
   * Follows a command that runs or ran, from `offset` on. Its result is kept, unless `keep` is false. Where bytes from
   * there on have left the guest's window the streams fail with an `OutputGap`, which says where to go on. A command that
   * the guest does not know is an `UnknownExec` of `status` and the streams.
   */
  attach(id: string, { signal, ...options }: AttachOptions = {}): ChildProcess {
    return new ChildProcess(this.#requests, id, {
      keep: true,
      ...options,
      owned: false,
      detach: signal,
    });
  }

  /**
   * A command's events as they come, both streams in one order, over lost connections; gaps are events too. Ends with the
   * exit. Throws `UnknownExec`, and `ConnectionLost` where the guest stays away.
   */
  events(id: string, options: FollowOptions = {}): AsyncGenerator<ExecEvent, void, void> {
    return followEvents(this.#requests, execPath(id, "stream"), options);
  }

  /** A command's phase, and its outcome once there is one. Throws `UnknownExec`. */
  async poll(id: string, signal?: AbortSignal): Promise<PollResponse> {
    return await pollExec(this.#requests, id, signal);
  }

  /**
   * Takes a result over, which the guest forgets with that: poll and store it first, for an answer that is lost cannot be
   * had again. Throws `StillRunning`, `AlreadyAcked` and `UnknownExec`.
   */
  async ack(id: string, signal?: AbortSignal): Promise<Outcome> {
    return await ackExec(this.#requests, id, signal);
  }

  /**
   * Acks a result that is here already, and does not wait for what the ack would bring of it again: up to 16 MiB of text.
   * Throws as `ack` does.
   */
  async forget(id: string, signal?: AbortSignal): Promise<void> {
    await forgetExec(this.#requests, id, signal);
  }

  /** Ends a command's process group; whether anybody lived in it. Throws `UnknownExec`. */
  async kill(id: string, signal?: AbortSignal): Promise<boolean> {
    return await killExec(this.#requests, id, signal);
  }

  /**
   * Writes to a command's stdin once, and closes it with `eof`. Throws `StdinTimeout`, which says how much was written,
   * `StdinClosed`, `TooLarge` and `UnknownExec`. `child.stdin` does all of that by itself.
   */
  async writeStdin(
    id: string,
    bytes: Uint8Array,
    options: { readonly eof?: boolean; readonly signal?: AbortSignal } = {},
  ): Promise<StdinResponse> {
    return await writeStdin(this.#requests, id, bytes, options);
  }

  /** A command's standard input as a stream: see `child.stdin`. */
  stdin(
    id: string,
    signal: AbortSignal = new AbortController().signal,
  ): WritableStream<Uint8Array> {
    return stdinStream(this.#requests, id, signal);
  }

  /** The commands that the guest knows, oldest first, and the processes that live in their groups. */
  async procs(signal?: AbortSignal): Promise<readonly ProcGroup[]> {
    const { procs } = await this.#get<ProcsResponse>("/v1/procs", signal);
    return procs;
  }

  /** How the guest is. What an older daemon does not tell has its value of rest. */
  async health(signal?: AbortSignal): Promise<Health> {
    const told = await this.#get<Health>("/v1/health", signal);
    return { ...{ busy: false, execs: 0, hooks: [], hooks_dropped: 0 }, ...told };
  }

  /** What the guest publishes of itself. */
  async schema(signal?: AbortSignal): Promise<SchemaDocument> {
    return await this.#get("/v1/schema", signal);
  }

  /** A file of the guest. Throws `FileNotFound`, and `Refused` for what is no file or cannot be read. */
  async readFile(path: string, options: { readonly signal?: AbortSignal } = {}): Promise<Content> {
    return await readFile(this.#requests, path, options.signal);
  }

  /** Lines of a file, as UTF-8 and without their ends. Throws as `readFile` does, once it is iterated. */
  readLines(path: string, range: LineRange = {}): AsyncGenerator<string, void, void> {
    return readLines(this.#requests, path, range);
  }

  /**
   * Writes a file, whole or not at all, and makes the directories above it. Throws `TooLarge`, `DiskFull`, and `Refused`
   * for what cannot be written. After a `ConnectionLost` nobody knows which of both it was, and it may be done again.
   */
  async writeFile(path: string, source: FileSource, options: WriteFileOptions = {}): Promise<void> {
    await writeFile(this.#requests, path, source, options);
  }

  /** The members of a directory's tree, one after the other. Throws `FileNotFound` and `TooLarge`, once it is iterated. */
  downloadTree(
    path: string,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<TreeEntry, void, void> {
    return downloadTree(this.#requests, path, options.signal);
  }

  /**
   * Puts members into the directory at an absolute path, which is made where it is not there; all are checked before the
   * first is written. Throws `TooLarge`, `DiskFull`, and `Refused` for members that lead out of it.
   */
  async uploadTree(
    path: string,
    members: Iterable<TreeSource> | AsyncIterable<TreeSource>,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<void> {
    await uploadTree(this.#requests, path, members, options.signal);
  }

  /** A directory's tree as an uncompressed tar archive. Throws `FileNotFound` and `TooLarge`. */
  async downloadTar(
    path: string,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<Content> {
    return await downloadTar(this.#requests, path, options.signal);
  }

  /** Puts the members of an uncompressed tar archive into a directory; see `uploadTree`. */
  async uploadTar(
    path: string,
    archive: FileSource,
    options: { readonly size?: number; readonly signal?: AbortSignal } = {},
  ): Promise<void> {
    await uploadTar(this.#requests, path, archive, options);
  }

  /**
   * Connects to a port of the guest's loopback. That something listens there is known when the first bytes come: until
   * then `readable` may fail with a `TunnelClosed` of 4502. Throws `IdentityRefused` where the guest is another one.
   */
  async connect(port: number, options: ConnectOptions = {}): Promise<Tunnel> {
    return await openTunnel(this.#requests, port, options);
  }

  async #get<T>(path: string, signal: AbortSignal | undefined): Promise<T> {
    return await this.#requests.json({
      what: `get ${path}`,
      method: "GET",
      path,
      repeatable: true,
      signal,
    });
  }
}
