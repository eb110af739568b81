/** Files, trees and the reserve, inside a guest. */

import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { text } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import type { Guest } from "./guest.ts";

const MIB = 1024 ** 2;
/** How long an upload may take: half a gigabyte does, where emulation has little of a processor. */
const UPLOAD_MS = 300_000;

/** Uploads; throws unless the answer has this status. */
export async function put(
  guest: Guest,
  kind: "file" | "tar",
  path: string,
  body: BodyInit,
  status = 204,
): Promise<string> {
  const init = { method: "PUT", body };
  const url = `/v1/fs/${kind}?path=${encodeURIComponent(path)}`;
  return await text(await guest.fetch(url, init, UPLOAD_MS), status);
}

async function download(
  guest: Guest,
  kind: "file" | "tar",
  query: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const answer = await guest.fetch(`/v1/fs/${kind}?path=${query}`);
  if (answer.status !== 200) await text(answer);
  return await answer.bytes();
}

export async function checkFiles(guest: Guest): Promise<void> {
  const content = new Uint8Array(3 * MIB);
  for (let at = 0; at < content.length; at += 65536) {
    crypto.getRandomValues(content.subarray(at, at + 65536));
  }
  await put(guest, "file", "/var/lib/made/here/blob", content);
  deepStrictEqual(await download(guest, "file", "/var/lib/made/here/blob"), content);
  strictEqual(
    await guest.sh("stat -c '%a %u %s' /var/lib/made/here/blob"),
    `644 0 ${content.length}`,
  );
  const lines = await download(guest, "file", "/etc/passwd&start_line=2&end_line=2");
  strictEqual(new TextDecoder().decode(lines), "user:x:1000:1000::/home/user:/bin/sh\n");

  await guest.sh(
    "mkdir -p /tmp/tree/sub; echo deep >/tmp/tree/sub/file; chmod 750 /tmp/tree/sub/file; ln -s sub/file /tmp/tree/link",
  );
  const archive = await download(guest, "tar", "/tmp/tree");
  await put(guest, "tar", "/tmp/copy", archive);
  strictEqual(
    await guest.sh("cat /tmp/copy/link; readlink /tmp/copy/link; stat -c %a /tmp/copy/sub/file"),
    "deep\nsub/file\n750",
  );
  await guest.sh("rm -r /tmp/tree /tmp/copy /var/lib/made");
}

/** Fills the guest's disk up to the reserve, and empties it again. */
export async function checkReserve(guest: Guest): Promise<void> {
  const disk = async (): Promise<{ available: number; reserve: number; pressed: boolean }> => {
    const { disk } = await guest.client.health();
    if (disk === null) throw new Error("Cannot check the reserve: the disk could not be measured");
    return {
      available: Number(disk.available_bytes),
      reserve: Number(disk.reserve_bytes),
      pressed: disk.under_pressure,
    };
  };
  const { available, reserve, pressed } = await disk();
  strictEqual(pressed, false);
  // A sixteenth of the 2 GiB that the image build makes.
  strictEqual(reserve, 128 * MIB);
  await guest.sh(`fallocate -l ${available - reserve + MIB} /var/full`);
  await eventually("the disk under pressure", async () => (await disk()).pressed);
  await put(guest, "file", "/var/refused", "no room", 507);
  await guest.sh("rm /var/full; test ! -e /var/refused");
  await eventually("the pressure gone", async () => !(await disk()).pressed);
  await put(guest, "file", "/var/accepted", "room");
}
