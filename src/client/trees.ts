/** Directory trees of the guest, as they travel: uncompressed tar, read and written by modern-tar. */

import { createTarDecoder, createTarPacker, type TarHeader } from "modern-tar";
import { GuestError } from "./errors.ts";
import { download, type FileSource, upload } from "./files.ts";
import { type Requests, withQuery } from "./requests.ts";

/** A member of a tree. */
export interface TreeEntry {
  /** Its path below the root, with slashes; "./" is the root itself, and a directory's ends with a slash. */
  readonly name: string;
  /** What it is. */
  readonly type: "file" | "directory" | "symlink" | "link";
  /** Bytes of a file; 0 of all others. */
  readonly size: number;
  /** Permissions, such as 0o755. */
  readonly mode: number;
  /** When it was changed. */
  readonly mtime: Date;
  /** Where a symbolic link points to, or the member that a hard link is another name of. */
  readonly linkname: string | undefined;
  /** A file's bytes. They are passed over where they are not read before the next member is asked for. */
  readonly body: ReadableStream<Uint8Array>;
}

/** A member of a tree that is to be made. */
export interface TreeSource {
  /** Its path below the root, with slashes. */
  readonly name: string;
  /** What it is; a file unless given. */
  readonly type?: TreeEntry["type"];
  /** Permissions; 0644 of a file and 0755 of a directory unless given. */
  readonly mode?: number;
  /** When it was changed; now unless given. */
  readonly mtime?: Date;
  /** Where a link leads. */
  readonly linkname?: string;
  /** A file's bytes; a stream needs its `size`. */
  readonly body?: FileSource;
  /** Bytes of a stream. */
  readonly size?: number;
}

/** The members of a tree, one after the other. */
export async function* downloadTree(
  requests: Requests,
  path: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<TreeEntry, void, void> {
  const { readable } = await downloadTar(requests, path, signal);
  const decoder = createTarDecoder();
  // A failure of the download is one of the entries, too.
  const piped = readable.pipeTo(decoder.writable);
  piped.catch(() => {});
  for await (const { header, body } of decoder.readable) {
    const { name, type = "file", size, mode = 0, mtime = new Date(0), linkname } = header;
    if (type !== "file" && type !== "directory" && type !== "symlink" && type !== "link") continue;
    const reader = body.getReader();
    yield { name, type, size, mode, mtime, linkname: linkname || undefined, body: bodyOf(reader) };
    await drain(reader);
  }
  await piped;
}

/**
 * A member's bytes. Who cancels them has them read to their end: modern-tar 0.8.6, told of a body's cancel when the next
 * member has begun, takes that one's body away.
 */
function bodyOf(reader: ReadableStreamDefaultReader<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller): Promise<void> {
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => drain(reader),
  }, new CountQueuingStrategy({ highWaterMark: 0 }));
}

async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  while (!(await reader.read()).done);
}

/** The tree as one archive. */
export async function downloadTar(
  requests: Requests,
  path: string,
  signal: AbortSignal | undefined,
): ReturnType<typeof download> {
  return await download(requests, `read ${path}`, withQuery("/v1/fs/tar", { path }), signal);
}

/** Puts members into a directory. */
export async function uploadTree(
  requests: Requests,
  path: string,
  members: Iterable<TreeSource> | AsyncIterable<TreeSource>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { readable, controller } = createTarPacker();
  const packing = pack(members, controller);
  packing.catch(() => {});
  try {
    await uploadTar(requests, path, readable, { signal });
  } catch (error) {
    // Where a member could not be packed, that is why there was no whole archive.
    await Promise.race([packing, Promise.resolve()]);
    throw error;
  }
  await packing;
}

/** Puts the members of an archive into a directory. */
export async function uploadTar(
  requests: Requests,
  path: string,
  archive: FileSource,
  options: { readonly size?: number | undefined; readonly signal?: AbortSignal | undefined },
): Promise<void> {
  const { size, signal } = options;
  const known = { ...(size === undefined ? {} : { size }), ...(signal ? { signal } : {}) };
  await upload(requests, `write ${path}`, withQuery("/v1/fs/tar", { path }), archive, known);
}

type Controller = ReturnType<typeof createTarPacker>["controller"];

async function pack(
  members: Iterable<TreeSource> | AsyncIterable<TreeSource>,
  controller: Controller,
): Promise<void> {
  try {
    for await (const member of members) {
      const body = contentOf(member);
      const writable = controller.add(headerOf(member, body.size));
      await body.stream.pipeTo(writable);
    }
    controller.finalize();
  } catch (error) {
    controller.error(error);
    throw error;
  }
}

function headerOf(
  { name, type = "file", mode, mtime, linkname }: TreeSource,
  size: number,
): TarHeader {
  return {
    name: type === "directory" && !name.endsWith("/") ? `${name}/` : name,
    type,
    size,
    mode: mode ?? (type === "directory" ? 0o755 : 0o644),
    mtime: mtime ?? new Date(),
    ...(linkname === undefined ? {} : { linkname }),
  };
}

function contentOf(
  { name, type = "file", body = "", size }: TreeSource,
): { readonly size: number; readonly stream: ReadableStream<Uint8Array> } {
  if (type !== "file") return contentOf({ name, body: "" });
  if (body instanceof ReadableStream) {
    if (size === undefined) throw new GuestError(`Cannot pack ${name}: its size is not given`);
    return { size, stream: body };
  }
  const blob = body instanceof Blob ? body : new Blob([body]);
  return { size: blob.size, stream: blob.stream() };
}
