import { ok, strictEqual } from "node:assert/strict";
import { forgetPeak, peakBytes, processorSeconds } from "../support/proc.ts";
import { fileUrl } from "../support/files_client.ts";
import { request } from "../support/raw_http.ts";
import { latin1 } from "../support/bytes.ts";
import { withDaemonAsRoot } from "../support/with_daemon.ts";

const MIB = 1024 * 1024;

/** Sizes of the chunks of client libraries, and how many MiB of them; a daemon that collects them takes minutes. */
const UPLOADS = [[8 * 1024, 64], [1000, 24]] as const;

for (const [chunkBytes, mib] of UPLOADS) {
  withDaemonAsRoot.test(`a client that sends ${mib} MiB in chunks of ${chunkBytes} bytes as fast as it can is kept up with`, async ({ daemon, scratch }) => {
    const path = scratch.join("file");
    const chunk = `${chunkBytes.toString(16)}\r\n${"x".repeat(chunkBytes)}\r\n`;
    const piece = latin1(chunk.repeat(Math.ceil(MIB / chunkBytes)));
    forgetPeak(daemon.pid);
    const [memory, used] = [peakBytes(daemon.pid), processorSeconds(daemon.pid)];
    using connection = await daemon.connect();
    await connection.send(request("PUT", fileUrl("file", path), [
      daemon.authorization,
      ["Transfer-Encoding", "chunked"],
    ]));
    for (let sent = 0; sent < mib; sent++) await connection.send(piece);
    await connection.send(latin1("0\r\n\r\n"));
    strictEqual((await connection.response("PUT")).status, 204);
    strictEqual(Deno.statSync(path).size, mib * Math.ceil(MIB / chunkBytes) * chunkBytes);
    const seconds = processorSeconds(daemon.pid) - used;
    const more = (peakBytes(daemon.pid) - memory) / MIB;
    ok(seconds < 3, `${seconds.toFixed(1)} s of a processor`);
    ok(more < 32, `${more.toFixed(0)} MiB more`);
  });
}
