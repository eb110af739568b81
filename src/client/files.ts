/** Files of the guest. */

import { GuestError } from "./errors.ts";
import { checkedBody, readBody, type Requests, withQuery } from "./requests.ts";

/** What a file is written from. */
export type FileSource =
  | string
  | Uint8Array<ArrayBuffer>
  | Blob
  | ReadableStream<Uint8Array>;

/** How to write a file. */
export interface WriteFileOptions {
  /** Permissions, such as 0o755, exact; unless given those of the file that is there, or 0644. */
  readonly mode?: number;
  /** Bytes of a stream, where they are known: a guest with too little room then refuses at once. */
  readonly size?: number;
  /** Ends the upload, which then has changed nothing. */
  readonly signal?: AbortSignal;
}

/** Which lines of a file, counted from 1, both included. */
export interface LineRange {
  /** First line; 1 unless given. */
  readonly first?: number;
  /** Last line; that of the file unless given, and where the file has fewer. */
  readonly last?: number;
  /** Ends the reading. */
  readonly signal?: AbortSignal;
}

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_LINE_CHARS = 16 * 1024 * 1024;

/** What a download brings, once: as a stream, or whole. Cancel the stream where it is not wanted to its end. */
export class Content {
  /** Bytes in all; undefined where the guest cannot know, as of files in /proc. */
  readonly size: number | undefined;
  /** The bytes as they come; the guest waits for their reader. Fails with `ConnectionLost` where they end too early. */
  readonly readable: ReadableStream<Uint8Array<ArrayBuffer>>;
  readonly #response: Response;
  readonly #ask: { readonly what: string; readonly signal: AbortSignal | undefined };

  /** Made by `guest.readFile` and `guest.downloadTar`. */
  constructor(response: Response, what: string, signal: AbortSignal | undefined) {
    const length = response.headers.get("content-length");
    this.size = length === null ? undefined : Number(length);
    this.#response = response;
    this.#ask = { what, signal };
    const pieces = checkedBody(response, this.#ask);
    this.readable = new ReadableStream({
      pull: async (controller) => {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: async () => void await pieces.return(),
    }, new CountQueuingStrategy({ highWaterMark: 0 }));
  }

  /** All of it. Throws where it has more than `maxBytes`, 64 MiB unless given. */
  async bytes(maxBytes: number = MAX_BYTES): Promise<Uint8Array<ArrayBuffer>> {
    return await readBody(this.#response, maxBytes, this.#ask);
  }

  /** All of it, as UTF-8; see `bytes`. */
  async text(maxBytes: number = MAX_BYTES): Promise<string> {
    return new TextDecoder().decode(await this.bytes(maxBytes));
  }
}

/** Asks for a download. */
export async function download(
  requests: Requests,
  what: string,
  path: string,
  signal: AbortSignal | undefined,
): Promise<Content> {
  const ask = { what, method: "GET", path, repeatable: true, signal };
  return await requests.send(ask, (response) => new Content(response, what, signal));
}

/** Sends a file or an archive. What is not a stream is sent again after a lost answer: twice is as good as once. */
export async function upload(
  requests: Requests,
  what: string,
  path: string,
  source: FileSource,
  { size, signal }: Omit<WriteFileOptions, "mode">,
): Promise<void> {
  const ask = { what, method: "PUT", path, signal };
  if (source instanceof ReadableStream) return await requests.done({ ...ask, body: source, size });
  const body = typeof source === "string" ? new TextEncoder().encode(source) : source;
  if (body instanceof Uint8Array) return await requests.done({ ...ask, body, repeatable: true });
  await requests.done({ ...ask, body: body.stream(), size: body.size });
}

/** Reads a file, whole. */
export async function readFile(
  requests: Requests,
  path: string,
  signal: AbortSignal | undefined,
): Promise<Content> {
  return await download(requests, `read ${path}`, withQuery("/v1/fs/file", { path }), signal);
}

/** Writes a file. */
export async function writeFile(
  requests: Requests,
  path: string,
  source: FileSource,
  { mode, ...options }: WriteFileOptions,
): Promise<void> {
  const query = { path, mode: mode?.toString(8).padStart(4, "0") };
  await upload(requests, `write ${path}`, withQuery("/v1/fs/file", query), source, options);
}

/** Lines of a file, as UTF-8 and without their ends. */
export async function* readLines(
  requests: Requests,
  path: string,
  { first, last, signal }: LineRange,
): AsyncGenerator<string, void, void> {
  const query = withQuery("/v1/fs/file", { path, start_line: first, end_line: last });
  const content = await download(requests, `read ${path}`, query, signal);
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of content.readable) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
    if (rest.length > MAX_LINE_CHARS) {
      throw new GuestError(`Cannot read a line of ${path}: it is longer than ${MAX_LINE_CHARS}`);
    }
  }
  rest += decoder.decode();
  if (rest !== "") yield rest;
}
