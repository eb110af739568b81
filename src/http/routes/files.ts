import { decodeFileReadQuery, decodeFsQuery, parseMode } from "../../contract/files.ts";
import { PlainRefusal } from "../../contract/refusal.ts";
import type { Download } from "../../files/download.ts";
import type { Files, Sink } from "../../files/files.ts";
import { empty } from "../respond.ts";
import type { Call, Handlers } from "../router.ts";
import { BufferShare, pumpBody, refuseDeclared } from "../upload_body.ts";

const LAST_LINE = 2n ** 64n - 1n;

/** What the file routes need. */
export interface FileRoutesOptions {
  /** Files and trees. */
  readonly files: Files;
  /** Most bytes of a body. */
  readonly maxBodyBytes: number;
}

/** The routes of files and trees. */
export type FileRoutes = Pick<Handlers, "file_read" | "file_write" | "tar_read" | "tar_write">;

/** Makes the handlers of files and trees. */
export function fileRoutes({ files, maxBodyBytes }: FileRoutesOptions): FileRoutes {
  const share = new BufferShare();

  async function take({ request }: Call, sink: Sink): Promise<Response> {
    let stop: () => void = () => {};
    try {
      await pumpBody(request, maxBodyBytes, sink, {
        share,
        onStop(stopping): void {
          stop = stopping;
          files.transfers.add(stop);
        },
      });
    } finally {
      files.transfers.remove(stop);
    }
    await sink.finish();
    return empty(204);
  }

  function give(type: string, download: Download): Response {
    const headers: Record<string, string> = { "content-type": type };
    if (download.length !== undefined) headers["content-length"] = String(download.length);
    return new Response(download.body(), { headers });
  }

  return {
    async file_read(call: Call): Promise<Response> {
      const { path, start_line: start, end_line: end } = decodeFileReadQuery(call.query);
      const whole = start === null && end === null;
      const lines = whole ? undefined : { first: start ?? 1n, last: end ?? LAST_LINE };
      const download = await files.readFile(path, call.request.signal, lines);
      return give("application/octet-stream", download);
    },
    async file_write(call: Call): Promise<Response> {
      const { path, mode: octal } = decodeFsQuery(call.query);
      const mode = octal === null ? undefined : parseMode(octal);
      refuseDeclared(call.request, maxBodyBytes);
      return await take(call, await files.writeFile(path, call.request.signal, mode));
    },
    async tar_read(call: Call): Promise<Response> {
      const { path } = decodeFsQuery(call.query);
      const download = await files.readTree(path, call.request.signal);
      return give("application/x-tar", download);
    },
    async tar_write(call: Call): Promise<Response> {
      const { path } = decodeFsQuery(call.query);
      if (!path.startsWith("/")) {
        throw new PlainRefusal(400, "query parameter path must be absolute");
      }
      refuseDeclared(call.request, maxBodyBytes);
      return await take(call, await files.writeTree(path, call.request.signal));
    },
  };
}
