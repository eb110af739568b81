/** cp: files and directories between here and the guest, by the rules of `docker cp`. */

import { Readable, Writable } from "node:stream";
import { packTar, unpackTar } from "modern-tar/fs";
import { type Content, FileNotFound, type Guest, Refused } from "../client/mod.ts";
import { type Common, guestOf } from "./connection.ts";
import { EXIT, Failure } from "./failure.ts";
import { Progress } from "./progress.ts";

/** What is at a path. */
export type Kind = "file" | "directory" | "nothing";

/** A source or target, as it was typed. */
export interface Place {
  /** Which side it is on. */
  readonly side: "here" | "guest";
  /** Its path; "-" here is a pipe. */
  readonly path: string;
}

/** Reads `guest:PATH` and `PATH`. */
export function placeOf(word: string): Place {
  const path = word.startsWith("guest:") ? word.slice(6) : word;
  if (path === "") throw new Failure(`Cannot copy '${word}': it names no path`);
  return { side: word.startsWith("guest:") ? "guest" : "here", path };
}

/**
 * Where a source ends up: in a target that is a directory under its own name, but its contents alone where it ends with
 * "/."; under the target's name otherwise. Throws a {@link Failure} for a combination that makes no sense.
 */
export function landing(source: string, from: Kind, target: string, to: Kind): string {
  if (from === "nothing") throw new Failure(`Cannot copy ${source}: it is not there`);
  const name = source.replace(/\/+$/, "").split("/").at(-1) ?? "";
  if (to === "directory") {
    const bare = target.replace(/\/+$/, "");
    if (from === "directory" && (name === "." || name === "")) return bare === "" ? "/" : bare;
    return `${bare}/${name}`;
  }
  if (from === "directory" && to === "file") {
    throw new Failure(`Cannot copy ${source}, a directory, to ${target}: that is a file`);
  }
  if (from === "file" && target.endsWith("/")) {
    throw new Failure(`Cannot copy ${source} to ${target}: there is no such directory`);
  }
  return target;
}

/** Copies. */
export async function copy(source: string, target: string, options: Common): Promise<number> {
  const [from, to] = [placeOf(source), placeOf(target)];
  if (from.side === to.side) {
    throw new Failure("Cannot copy: one of source and target is guest:PATH, the other one is here");
  }
  const guest = guestOf(options);
  if (from.side === "here") await upload(guest, from.path, to.path);
  else await download(guest, from.path, to.path);
  return EXIT.ok;
}

async function upload(guest: Guest, source: string, target: string): Promise<void> {
  if (source === "-") {
    using progress = new Progress(target, undefined);
    await guest.writeFile(target, progress.counted(Deno.stdin.readable));
    return;
  }
  const from = kindHere(source);
  const path = landing(source, from, target, await kindInGuest(guest, target));
  if (from === "directory") {
    using progress = new Progress(source, undefined);
    const packed = Readable.toWeb(packTar(source)) as ReadableStream<Uint8Array>;
    await guest.uploadTar(absolute(path), progress.counted(packed));
    return;
  }
  using file = await Deno.open(source);
  const { size, mode } = await file.stat();
  using progress = new Progress(source, size);
  const permissions = mode === null ? {} : { mode: mode & 0o777 };
  await guest.writeFile(path, progress.counted(file.readable), { size, ...permissions });
}

async function download(guest: Guest, source: string, target: string): Promise<void> {
  const file = await fileInGuest(guest, source);
  if (target === "-") {
    using progress = new Progress(source, undefined);
    const { readable } = file ?? await guest.downloadTar(source);
    await progress.counted(readable).pipeTo(Deno.stdout.writable);
    return;
  }
  const path = landing(source, file === undefined ? "directory" : "file", target, kindHere(target));
  if (file === undefined) {
    using progress = new Progress(source, undefined);
    const { readable } = await guest.downloadTar(source);
    await progress.counted(readable).pipeTo(
      Writable.toWeb(unpackTar(path)) as WritableStream<Uint8Array>,
    );
    return;
  }
  using progress = new Progress(source, file.size);
  await writeHere(path, progress.counted(file.readable));
}

/** Writes a file that has its name only when it is whole. */
async function writeHere(path: string, source: ReadableStream<Uint8Array>): Promise<void> {
  const part = `${path}.${crypto.randomUUID().slice(0, 8)}.part`;
  try {
    const file = await Deno.open(part, { write: true, createNew: true });
    await source.pipeTo(file.writable);
    await Deno.rename(part, path);
  } catch (error) {
    await source.cancel().catch(() => {});
    await Deno.remove(part).catch(() => {});
    if (error instanceof Error && "code" in error) {
      throw new Failure(`Cannot write ${path}: ${error.message}`);
    }
    throw error;
  }
}

function kindHere(path: string): Kind {
  try {
    return Deno.statSync(path).isDirectory ? "directory" : "file";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "nothing";
    throw new Failure(`Cannot look at ${path}: ${(error as Error).message}`);
  }
}

async function kindInGuest(guest: Guest, path: string): Promise<Kind> {
  try {
    const file = await fileInGuest(guest, path);
    await file?.readable.cancel();
    return file === undefined ? "directory" : "file";
  } catch (error) {
    if (error instanceof FileNotFound) return "nothing";
    throw error;
  }
}

/** A file's content; undefined for a directory, which the guest refuses to read as one. */
async function fileInGuest(guest: Guest, path: string): Promise<Content | undefined> {
  try {
    return await guest.readFile(path);
  } catch (error) {
    if (error instanceof Refused && error.status === 400) return undefined;
    throw error;
  }
}

function absolute(path: string): string {
  if (path.startsWith("/")) return path;
  throw new Failure(`Cannot copy a directory to ${path}: its path in the guest must be absolute`);
}
