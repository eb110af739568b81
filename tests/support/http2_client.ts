/** A client of HTTP/2 without TLS, by prior knowledge. */

import http2 from "node:http2";
import { within } from "./await_event.ts";
import type { Daemon } from "./daemon.ts";

/** What one request was answered with. */
interface Answer {
  readonly head: http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** A connection, ended without a word at the end of the block. */
export class Http2Client implements Disposable {
  readonly session: http2.ClientHttp2Session;

  constructor(daemon: Daemon) {
    this.session = http2.connect(daemon.url);
  }

  /** Sends a request and reads its whole answer. */
  async ask(headers: http2.OutgoingHttpHeaders, body?: Uint8Array): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const stream = this.session.request(headers);
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    let head: Answer["head"] = {};
    stream.on("response", (said) => head = said);
    stream.on("data", (piece: Uint8Array<ArrayBuffer>) => pieces.push(piece));
    stream.on("end", async () => resolve({ head, body: await new Blob(pieces).bytes() }));
    stream.on("error", reject);
    // A GET has been ended with its head.
    if (body === undefined || body.length === 0) stream.end();
    else stream.end(body);
    return await within(`an answer to ${headers[":path"]}`, promise);
  }

  [Symbol.dispose](): void {
    this.session.destroy();
  }
}
