/** The README's way through a machine of its own, line by line as it stands there. */

import { match, ok, strictEqual } from "node:assert/strict";
import { begun, ended, Forward, GUESTCTL, typed } from "../support/guestctl.ts";
import { Scratch } from "../support/scratch.ts";
import { readSource } from "../support/source_files.ts";
import type { Guest } from "./guest.ts";

/** The lines that drive the machine, without their comments, the checkout's guestctl in them. */
function lines(): readonly string[] {
  const [, section = ""] = readSource("README.md").split("## In a machine of its own");
  const found = section.split("\n## ")[0]?.matchAll(/^ {4}(.*?guestctl .*?)(?: +# .*)?$/gm) ?? [];
  return Array.from(found, ([, line = ""]) => line.replaceAll("scripts/guestctl", GUESTCTL));
}

/** Goes the way with a guest that has no token yet; afterwards it has. */
export async function checkNewcomer(guest: Guest): Promise<void> {
  using scratch = new Scratch();
  Deno.mkdirSync(scratch.join("project"));
  scratch.file("project/test.sh", "echo all is well >report; httpd -p 80 -h .; echo tested");
  const ran = async (line: string): Promise<string> => {
    const inside = `cd '${scratch.path}'; ${line}`;
    const { code, out, said } = await ended(begun(guest, ["-c", inside], "bash"));
    strictEqual(code, 0, said);
    return out;
  };
  const [bootstrap, shell, copyIn, test, forward, copyOut, ...more] = lines();
  ok(bootstrap && shell && copyIn && test && forward && copyOut);
  strictEqual(more.length, 0);
  guest.token = await ran(`${bootstrap}; printf %s "$GUESTCTL_TOKEN"`);
  const answer = /33 99\s+\/dev\/pts\/\d+\s+root/;
  strictEqual(await typed(guest, shell, "PS1=; stty size; tty; whoami", answer), 5);
  await ran(copyIn);
  strictEqual(await ran(test), "tested\n");
  {
    const args = forward.replace(/ 8080:/, " 0:").split(" ").slice(1);
    await using way = await Forward.of(begun(guest, args));
    const page = await fetch(`http://127.0.0.1:${way.port}/report`);
    match(await page.text(), /^all is well$/m);
    strictEqual(await way.interrupted(), 130);
  }
  await ran(copyOut);
  strictEqual(Deno.readTextFileSync(scratch.join("report")), "all is well\n");
}
