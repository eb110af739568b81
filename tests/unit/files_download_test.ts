import { deepStrictEqual, rejects, strictEqual } from "node:assert/strict";
import { PlainRefusal } from "../../src/contract/refusal.ts";
import { download } from "../../src/files/download.ts";
import { Transfers } from "../../src/files/transfers.ts";
import { Core } from "../../src/native/core.ts";
import { Reader } from "../../src/native/reader.ts";
import { Scratch } from "../support/scratch.ts";
import { KeptLog } from "./http_fixture.ts";

Deno.test("a download that is stopped on its way to the connection is neither sent nor a success", async (t) => {
  using scratch = new Scratch();
  const path = scratch.join("file");
  Deno.writeFileSync(path, new Uint8Array(1 << 20));
  const core = Core.open(new URL("../../dist/libguestd.so", import.meta.url), {
    captureBytes: 65536,
    windowBytes: 65536,
    lingerSecs: 1,
    graceSecs: 1,
    stdinSecs: 1,
    spoolDir: scratch.path,
    onSpoolFailed: () => {},
  });
  const [kept, transfers] = [new KeptLog(), new Transfers()];
  // Nobody has these ends, so whatever is not stopped is left to the server.
  const ends = { hostname: "127.0.0.1", port: 1, localPort: 1 };
  const opened = async (left: AbortSignal): Promise<ReturnType<typeof download>> =>
    download(await Reader.openFile(core, path, new AbortController().signal), {
      transfers,
      left,
      endless: false,
      log: kept.log,
    });
  const refused = (error: unknown): boolean =>
    error instanceof PlainRefusal && error.status === 500;
  await t.step("because its caller has left", async () => {
    const gone = await opened(AbortSignal.abort());
    await rejects(gone.send(ends, new Uint8Array()), refused);
  });
  await t.step("because the daemon ends", async () => {
    const sending = (await opened(new AbortController().signal)).send(ends, new Uint8Array());
    transfers.close();
    await rejects(sending, refused);
  });
  await t.step("but not if it is not stopped", async () => {
    const other = await opened(new AbortController().signal);
    strictEqual(await other.send(ends, new Uint8Array()), false);
    const body = other.body();
    if (body instanceof ReadableStream) await body.cancel();
  });
  deepStrictEqual(kept.lines, []);
  await core.close();
});
