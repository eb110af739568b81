import { decodeFileReadQuery, FsQuery, parseMode } from "../../contract/files.ts";
import { decodeQuery } from "../../contract/object.ts";
import { PlainRefusal } from "../../contract/refusal.ts";
import type { Download } from "../../files/download.ts";
import type { Files, Pour } from "../../files/files.ts";
import { empty } from "../respond.ts";
import type { Call, Handlers } from "../router.ts";
import { bufferShares, pourBody, refuseDeclared } from "../upload_body.ts";

const LAST_LINE = 2n ** 64n - 1n;

/** What the file routes need. */
export interface FileRoutesOptions {
  /** Files and trees. */
  readonly files: Files;
  /** Most bytes of a body. */
  readonly maxBodyBytes: number;
  /** How long an upload may stand still, in milliseconds. */
  readonly idleMs: number;
}

/** The routes of files and trees. */
export type FileRoutes = Pick<Handlers, "file_read" | "file_write" | "tar_read" | "tar_write">;

/** Makes the handlers of files and trees. */
export function fileRoutes({ files, maxBodyBytes, idleMs }: FileRoutesOptions): FileRoutes {
  const shares = bufferShares();

  /** What hands a request's body over; refuses one that declares too much. */
  function pour(request: Request): Pour {
    refuseDeclared(request, maxBodyBytes);
    return (sink, stopped) =>
      pourBody(request, { sink, maxBytes: maxBodyBytes, stopped, shares, idleMs });
  }

  return {
    async file_read({ request, query }: Call): Promise<Response> {
      const { path, start_line: start, end_line: end } = decodeFileReadQuery(query);
      const whole = start === null && end === null;
      const lines = whole ? undefined : { first: start ?? 1n, last: end ?? LAST_LINE };
      const download = await files.readFile(path, request.signal, lines);
      return answer("application/octet-stream", download);
    },
    async file_write({ request, query }: Call): Promise<Response> {
      const { path, mode: octal } = decodeQuery(FsQuery, query);
      const mode = octal === null ? undefined : parseMode(octal);
      await files.writeFile(path, mode, request.signal, pour(request));
      return empty(204);
    },
    async tar_read({ request, query }: Call): Promise<Response> {
      const { path } = decodeQuery(FsQuery, query);
      return answer("application/x-tar", await files.readTree(path, request.signal));
    },
    async tar_write({ request, query }: Call): Promise<Response> {
      const { path } = decodeQuery(FsQuery, query);
      if (!path.startsWith("/")) {
        throw new PlainRefusal(400, "query parameter path must be absolute");
      }
      await files.writeTree(path, request.signal, pour(request));
      return empty(204);
    },
  };
}

function answer(type: string, { length, body }: Download): Response {
  const headers: Record<string, string> = { "content-type": type };
  if (length !== undefined) headers["content-length"] = String(length);
  return new Response(body, { headers });
}
