import { decodeFileReadQuery, decodeFsQuery, parseMode } from "../../contract/files.ts";
import { encodeHead } from "../../contract/head.ts";
import { PlainRefusal } from "../../contract/refusal.ts";
import { VERSION } from "../../contract/version.ts";
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
  /** Name of the header that carries the version. */
  readonly versionHeader: string;
}

/** The routes of files and trees. */
export type FileRoutes = Pick<Handlers, "file_read" | "file_write" | "tar_read" | "tar_write">;

/** Makes the handlers of files and trees. */
export function fileRoutes(
  { files, maxBodyBytes, versionHeader }: FileRoutesOptions,
): FileRoutes {
  const share = new BufferShare();

  async function take({ request, info }: Call, sink: Sink): Promise<Response> {
    let stop: () => void = () => {};
    try {
      await pumpBody(request, maxBodyBytes, sink, {
        share,
        connection: { remote: info.remoteAddr as Deno.NetAddr, sent: sentBefore(request) },
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

  /** Answers with a download, which native threads send where they can. */
  async function give(
    { request, info }: Call,
    type: string,
    download: Download,
  ): Promise<Response> {
    const fields: Record<string, string> = { "content-type": type };
    if (download.length !== undefined) fields["content-length"] = String(download.length);
    const isBare = !request.headers.has("content-length") &&
      !request.headers.has("transfer-encoding");
    if (isBare) {
      const head = encodeHead("200 OK", {
        ...fields,
        [versionHeader]: VERSION,
        connection: "close",
        date: new Date().toUTCString(),
      });
      const ends = files.ends(info.remoteAddr as Deno.NetAddr);
      // The connection is over then, and what is returned goes nowhere.
      if (await download.send(ends, head)) return empty();
    }
    return new Response(download.body(), { headers: fields });
  }

  return {
    async file_read(call: Call): Promise<Response> {
      const { path, start_line: start, end_line: end } = decodeFileReadQuery(call.query);
      const whole = start === null && end === null;
      const lines = whole ? undefined : { first: start ?? 1n, last: end ?? LAST_LINE };
      const download = await files.readFile(path, call.request.signal, lines);
      return await give(call, "application/octet-stream", download);
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
      return await give(call, "application/x-tar", download);
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

/**
 * What Deno's server has sent before this request, in bytes, if it came by HTTP/1: undefined for one that cannot have
 * come otherwise. HTTP/2 knows no `connection`, and its server speaks first.
 */
function sentBefore({ headers }: Request): number | undefined {
  if (headers.has("connection")) return undefined;
  return headers.has("expect") ? "HTTP/1.1 100 Continue\r\n\r\n".length : 0;
}
