import { deepStrictEqual, notStrictEqual, strictEqual } from "node:assert/strict";
import { parsePasswd, type PasswdEntry, PasswdFile, primaryGid } from "../../src/exec/passwd.ts";
import { Scratch } from "../support/scratch.ts";

const parse = (text: string): Map<number, PasswdEntry> =>
  parsePasswd(new TextEncoder().encode(text));

const ROOT = "root:x:0:0:root:/root:/bin/bash\n";

Deno.test("a passwd line gives name, ids, home and shell", () => {
  deepStrictEqual(
    [...parse(`${ROOT}app:x:1000:1001:App,,,:/home/app:/bin/sh`).values()],
    [
      { name: "root", uid: 0, gid: 0, home: "/root", shell: "/bin/bash" },
      { name: "app", uid: 1000, gid: 1001, home: "/home/app", shell: "/bin/sh" },
    ],
  );
});

Deno.test("a line that makes no sense is no entry and spoils no other", () => {
  const bad = {
    "no fields": "garbage",
    "empty": "",
    "comment": "#gone:x:7:7::/:/bin/sh",
    "NIS inclusion": "+nis:x:7:7::/:/bin/sh",
    "NIS exclusion": "-nis:x:7:7::/:/bin/sh",
    "no name": ":x:7:7::/:/bin/sh",
    "no uid": "a:x::7::/:/bin/sh",
    "no gid": "a:x:7:::/:/bin/sh",
    "negative uid": "a:x:-7:7::/:/bin/sh",
    "hexadecimal uid": "a:x:0x7:7::/:/bin/sh",
    "fractional uid": "a:x:7.0:7::/:/bin/sh",
    "spaced uid": "a:x: 7:7::/:/bin/sh",
    "signed uid": "a:x:+7:7::/:/bin/sh",
    "the kernel's unchanged": "a:x:4294967295:7::/:/bin/sh",
    "uid above uint32": "a:x:4294967296:7::/:/bin/sh",
    "uid of many digits": `a:x:${"7".repeat(400)}:7::/:/bin/sh`,
    "gid above uint32": "a:x:7:4294967295::/:/bin/sh",
    "NUL in the home": "a:x:7:7::/ho\0me:/bin/sh",
  };
  for (const [what, line] of Object.entries(bad)) {
    deepStrictEqual([...parse(`${line}\n${ROOT}`).keys()], [0], what);
  }
});

Deno.test("of what is odd but an entry everything is read", () => {
  strictEqual(parse("").size, 0);
  strictEqual(parse(`${ROOT}toor:x:0:5::/elsewhere:/bin/csh\n`).get(0)?.name, "root");
  strictEqual(parse("a:x:4294967294:4294967294::/:/bin/sh").get(4294967294)?.gid, 4294967294);
  deepStrictEqual(parse("a:x:7:8").get(7), { name: "a", uid: 7, gid: 8, home: "", shell: "" });
  strictEqual(parse("a:x:7:8::/h:").get(7)?.shell, "");
  strictEqual(parse("a:x:7:7::/home/jörg:/bin/sh").get(7)?.home, "/home/jörg");
  strictEqual(parse("__proto__:x:7:7::/:/bin/sh").get(7)?.name, "__proto__");
  const latin1 = Uint8Array.from("a:x:7:7:J\xf6rg:/h:/bin/sh\n" + ROOT, (c) => c.charCodeAt(0));
  deepStrictEqual([...parsePasswd(latin1).keys()], [7, 0]);
});

Deno.test("without an entry the group is the user's own id", () => {
  const entries = parse("a:x:7:8::/:/bin/sh");
  const passwd = { entry: (uid: number): PasswdEntry | undefined => entries.get(uid) };
  strictEqual(primaryGid(passwd, 7), 8);
  strictEqual(primaryGid(passwd, 9), 9);
});

Deno.test("a replaced file of the same size is seen, as useradd replaces it", async () => {
  using scratch = new Scratch();
  const directory = scratch.path;
  const path = `${directory}/passwd`;
  await Deno.writeTextFile(path, "a:x:7:7::/:/bin/sh\n");
  const passwd = new PasswdFile(path);
  strictEqual(passwd.entry(7)?.name, "a");
  await Deno.writeTextFile(`${path}+`, "b:x:8:8::/:/bin/sh\n");
  await Deno.rename(`${path}+`, path);
  deepStrictEqual([passwd.entry(8)?.name, passwd.entry(7)], ["b", undefined]);
});

Deno.test("a file that is written again within its times' resolution, at the same size, is seen", async () => {
  using scratch = new Scratch();
  const path = scratch.file("passwd", "");
  const passwd = new PasswdFile(path);
  const time = new Date();
  for (const name of ["a", "b"]) {
    await Deno.writeTextFile(path, `${name}:x:7:7::/:/bin/sh\n`);
    await Deno.utime(path, time, time);
    strictEqual(passwd.entry(7)?.name, name);
  }
});

Deno.test("an unchanged file is not parsed again", async () => {
  using scratch = new Scratch();
  const path = scratch.file("passwd", "");
  await Deno.writeTextFile(path, ROOT);
  const longAgo = new Date(Date.now() - 60_000);
  await Deno.utime(path, longAgo, longAgo);
  const passwd = new PasswdFile(path);
  const first = passwd.entry(0);
  notStrictEqual(first, undefined);
  strictEqual(passwd.entry(0), first);
});

Deno.test("a file that is missing, a directory or vanishes has no entries", async () => {
  using scratch = new Scratch();
  const directory = scratch.path;
  strictEqual(new PasswdFile(`${directory}/none`).entry(0), undefined);
  strictEqual(new PasswdFile(directory).entry(0), undefined);
  const path = `${directory}/passwd`;
  await Deno.writeTextFile(path, ROOT);
  const passwd = new PasswdFile(path);
  strictEqual(passwd.entry(0)?.name, "root");
  await Deno.remove(path);
  strictEqual(passwd.entry(0), undefined);
  await Deno.writeTextFile(path, ROOT);
  strictEqual(passwd.entry(0)?.name, "root");
});
