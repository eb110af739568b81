/** Requests to the file routes by hand, for their answers; the client library has the rest. */

import type { Daemon } from "./daemon.ts";

export function fileUrl(
  route: "file" | "tar",
  path: string,
  more: Readonly<Record<string, string>> = {},
): string {
  return `/v1/fs/${route}?${new URLSearchParams({ path, ...more })}`;
}

export function getFile(
  daemon: Daemon,
  path: string,
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return daemon.fetch(fileUrl("file", path, more));
}

export function putFile(
  daemon: Daemon,
  path: string,
  body: BodyInit,
  more: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return daemon.fetch(fileUrl("file", path, more), { method: "PUT", body });
}

export function getTar(daemon: Daemon, path: string): Promise<Response> {
  return daemon.fetch(fileUrl("tar", path));
}

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
