/**
 * A client of guestd: commands, files, trees and ports of a guest.
 *
 * ```ts
 * const guest = new Guest("http://127.0.0.1:9000", { token });
 * const { stdout } = await guest.command("uname", { args: ["-a"] }).output();
 * ```
 *
 * @module
 */

export type { PollResponse, StdinResponse } from "../contract/exec.ts";
export type { Limits } from "../contract/limits.ts";
export type { DiskHealth, Health, HookObservation, ProcGroup } from "../contract/system.ts";
export type {
  ChildOptions,
  ChildProcess,
  CommandOutput,
  CommandStatus,
  OutputOptions,
} from "./child.ts";
export type { Command, CommandOptions } from "./command.ts";
export * from "./errors.ts";
export type { Outcome } from "./exec_calls.ts";
export type { FollowOptions } from "./exec_events.ts";
export { type FetchOptions, FetchTransport } from "./fetch_transport.ts";
export type { Content, FileSource, LineRange, WriteFileOptions } from "./files.ts";
export { type AttachOptions, Guest, type GuestOptions, type SchemaDocument } from "./guest.ts";
export type { Hooks, RunOptions } from "./hooks.ts";
export { Identity, type StoredIdentity } from "./identity.ts";
export { signalName } from "./signal_names.ts";
export { type SocketOptions, SocketTransport } from "./socket_transport.ts";
export type { ExecEvent, Exit, Gap, Output } from "./sse.ts";
export type { Close, MessageSocket, Transport, TransportRequest } from "./transport.ts";
export type { TreeEntry, TreeSource } from "./trees.ts";
export type { ConnectOptions, Tunnel } from "./tunnel.ts";
export { type VsockAddress, vsockAddress } from "./vsock.ts";
