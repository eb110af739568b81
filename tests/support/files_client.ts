/**
 * Requests to the file routes.
 *
 * @module
 */

import type { Daemon } from "./daemon.ts";

/** The path and query of a file route. */
export function fileUrl(
  route: "file" | "tar",
  path: string,
  more: Readonly<Record<string, string>> = {},
): string {
  return `/v1/fs/${route}?${new URLSearchParams({ path, ...more })}`;
}

/** Reads a file. */
export function getFile(
  daemon: Daemon,
  path: string,
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return daemon.fetch(fileUrl("file", path, more));
}

/** Writes a file. */
export function putFile(
  daemon: Daemon,
  path: string,
  body: BodyInit,
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return daemon.fetch(fileUrl("file", path, more), { method: "PUT", body });
}

/** Downloads a directory. */
export function getTar(daemon: Daemon, path: string): Promise<Response> {
  return daemon.fetch(fileUrl("tar", path));
}

/** Uploads an archive. */
export function putTar(
  daemon: Daemon,
  path: string,
  body: BodyInit,
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return daemon.fetch(fileUrl("tar", path, more), { method: "PUT", body });
}

/** A body that arrives in pieces, without a declared length. */
export function pieces(...parts: readonly Uint8Array<ArrayBuffer>[]): ReadableStream<Uint8Array> {
  return ReadableStream.from(parts);
}
