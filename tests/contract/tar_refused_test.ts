import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { plain } from "../support/answers.ts";
import { eventually } from "../support/await_event.ts";
import { putTar } from "../support/files_client.ts";
import {
  archive,
  base256,
  extended,
  type MemberSpec,
  octal,
  record,
  sign,
} from "../support/tar_archive.ts";
import { withDaemon } from "../support/with_daemon.ts";

type Part = MemberSpec | Uint8Array<ArrayBuffer>;

const GIB = 2n ** 30n;
const names = (dir: string): string[] => [...Deno.readDirSync(dir)].map(({ name }) => name).sort();

const symlink = (name: string, link: string): MemberSpec => ({ name, type: "2", link });
const hardLink = (name: string, link: string): MemberSpec => ({ name, type: "1", link });

/** Archives that are refused with 400: what the answer says, and what they are made of. */
const REFUSED: Readonly<Record<string, readonly [says: RegExp, ...parts: Part[]]>> = {
  "an absolute name": [/\/etc\/owned: it is absolute/, { name: "/etc/owned" }],
  "a name that leads out": [/a\/\.\.\/\.\.\/owned/, { name: "a/../../owned" }],
  "only dots": [/\.\.: it leads out/, { name: "..", type: "5" }],
  "a file in place of the root": [/replace the root/, { name: "./." }],
  "an empty name": [/no name/, { name: "" }],
  "writing through a symlink": [
    /out\/owned: it leads through the symlink out/,
    symlink("out", "."),
    { name: "out/owned", content: "x" },
  ],
  "writing through a chain of symlinks": [
    /c\/owned/,
    symlink("a/b", ".."),
    symlink("c", "a/b"),
    { name: "c/owned" },
  ],
  "writing through a hard link to a symlink": [
    /b\/owned/,
    symlink("a", "."),
    hardLink("b", "a"),
    { name: "b/owned" },
  ],
  "a directory through a symlink": [/a\/c/, symlink("a", "b"), { name: "a/c/", type: "5" }],
  "a symlink in place of a directory": [
    /a: it would replace a directory/,
    { name: "a/b" },
    symlink("a", "."),
  ],
  "a file as a directory": [/through the file a/, { name: "a" }, { name: "a/b" }],
  "a directory in place of a file": [/a\/: it would/, { name: "a" }, { name: "a/", type: "5" }],
  "an absolute symlink": [/l: it has an absolute/, symlink("l", "/etc")],
  "a symlink out": [/d\/l: .* out of the root/, symlink("d/l", "../../x")],
  "a symlink to nothing": [/empty link target/, symlink("l", "")],
  "an absolute hard link": [/h: .*absolute/, hardLink("h", "/etc/passwd")],
  "a hard link out": [/h: .* out of the root/, hardLink("h", "../x")],
  "a hard link to what is not there": [/h: it is a hard/, hardLink("h", "x")],
  "a hard link to what comes later": [/h: it is a hard link/, hardLink("h", "x"), { name: "x" }],
  "a hard link to a directory": [/h: .* directory/, { name: "d/", type: "5" }, hardLink("h", "d")],
  "a hard link through a symlink": [
    /h: .* symlink/,
    { name: "d/f" },
    symlink("l", "d"),
    hardLink("h", "l/f"),
  ],
  "a hard link to a symlink, from where that leads out": [
    /d\/h: .* out of the root/,
    symlink("d/e/l", "../../x"),
    hardLink("d/e/f/l", "d/e/l"),
    hardLink("d/h", "d/e/f/l"),
  ],
  "a hard link to itself": [/itself/, { name: "h" }, hardLink("h", "h")],
  "a character device": [/dev: it is a device/, { name: "dev", type: "3" }],
  "a block device": [/dev: it is a device/, { name: "dev", type: "4" }],
  "a fifo": [/pipe: it is a fifo/, { name: "pipe", type: "6" }],
  "an unknown kind": [/odd: it is of a kind/, { name: "odd", type: "Q" }],
  "a symlink with content": [
    /l: it has content/,
    { name: "l", type: "2", link: "x", content: "y" },
  ],
  "a directory with content": [/d: it has content/, { name: "d", type: "5", content: "y" }],
  "a negative size": [/n: it has a negative size/, { name: "n", size: base256(-1n) }],
  "a size of 96 bits": [/n: it has a size/, { name: "n", size: base256(2n ** 80n) }],
  "a size that is no number": [/n: it has a size/, { name: "n", size: "99999999999\0" }],
  "a mode that is no number": [
    /n: it has a mode/,
    { name: "n", spoil: (h) => (h.set([0x7a], 100), sign(h)) },
  ],
  "content that is not there": [/n: it is truncated/, { name: "n", size: octal(2000, 12) }],
  "a wrong checksum": [
    /no tar header at byte 1024/,
    { name: "n", spoil: (h) => h.set([0x31], 150) },
  ],
  "a size in an extended header that lies": [
    /n: it is truncated/,
    extended({ size: "100000" }, { name: "n", content: "x" }),
  ],
  "a size in an extended header that overflows": [
    /malformed extended header/,
    extended({ size: "99999999999999999999" }, { name: "n" }),
  ],
  "a path in an extended header that leads out": [
    /\.\.\/owned/,
    extended({ path: "../owned" }, { name: "n" }),
  ],
  "a link in an extended header that leads out": [
    /n: it has an absolute/,
    extended({ linkpath: "/etc/passwd" }, symlink("n", "fine")),
  ],
  "a NUL in an extended header's path": [/holds a NUL/, extended({ path: "a\0b" }, { name: "n" })],
  "a global header that names": [/global header/, extended({ path: "n" }, { name: "m" }, "g")],
  "an extended header that lies about its length": [
    /malformed extended header at byte 1024/,
    { name: "x", type: "x", content: "99 path=n\n" },
    { name: "m" },
  ],
  "an extended header of eight MiB": [
    /without a sane size/,
    { name: "x", type: "x", size: octal(8 << 20, 12) },
  ],
  "an extended header without a member": [
    /truncated/,
    { name: "x", type: "x", content: record("path", "n") },
  ],
  "a component of 256 bytes": [/255 bytes/, extended({ path: "x".repeat(256) }, { name: "n" })],
  "a long name that leads out": [
    /\.\.\/owned/,
    { name: "././@LongLink", type: "L", content: "../owned\0" },
    { name: "n" },
  ],
  "a sparse map that overlaps": [
    /n: it has a broken map/,
    extended({
      "GNU.sparse.major": "0",
      "GNU.sparse.minor": "1",
      "GNU.sparse.map": "0,5,3,5",
      "GNU.sparse.size": "10",
    }, { name: "n", content: "0123456789" }),
  ],
};

/** Likewise with 413. */
const TOO_LARGE: typeof REFUSED = {
  "nine GiB": [/huge: it is larger/, { name: "huge", size: base256(9n * GIB) }],
  "eight GiB in two": [
    /b: the archive has more than 8589934592 bytes/,
    { name: "a", type: "S", spoil: sparse(5n * GIB) },
    { name: "b", type: "S", spoil: sparse(4n * GIB) },
  ],
  "a size of 64 bits": [/n: it is larger/, { name: "n", size: base256(2n ** 63n - 1n) }],
  "nine GiB in an extended header": [
    /n: it is larger/,
    extended({ size: String(9n * GIB) }, { name: "n", content: "x" }),
  ],
};

/** Makes a header that of an old GNU sparse file without data. */
function sparse(size: bigint): (header: Uint8Array) => void {
  return (header) => {
    header.set(new TextEncoder().encode("ustar  \0"), 257);
    header.fill(0, 265);
    header.set(base256(size), 483);
    sign(header);
  };
}

withDaemon.test("every archive that is refused names its member and leaves nothing", async ({ daemon, scratch, t }) => {
  // A spool has no name: one that is kept shows as a descriptor alone, to root.
  const descriptors = (): number => Deno.uid() === 0 ? daemon.fdCount() : 0;
  await plain(await putTar(daemon, scratch.join("warm"), new Uint8Array(2)), 400);
  const before = descriptors();
  const idle = daemon.rss();
  let highest = idle;
  for (const [what, [says, ...parts]] of Object.entries({ ...REFUSED, ...TOO_LARGE })) {
    const status = what in TOO_LARGE ? 413 : 400;
    await t.step(what, async () => {
      const root = scratch.join("above/root");
      const body = archive([{ name: "before", content: "x" }, ...parts]);
      match(await plain(await putTar(daemon, root, body), status), says);
      deepStrictEqual(names(scratch.path), []);
      Deno.mkdirSync(scratch.join("old"));
      scratch.file("old/before", "old");
      await plain(await putTar(daemon, scratch.join("old"), body), status);
      highest = Math.max(highest, daemon.rss());
      deepStrictEqual(names(scratch.join("old")), ["before"]);
      strictEqual(Deno.readTextFileSync(scratch.join("old/before")), "old");
      Deno.removeSync(scratch.join("old"), { recursive: true });
    });
  }
  await eventually("the spools closed", () => descriptors() <= before + 3);
  // Whatever sizes they claim.
  ok(highest - idle < 60e6, `${((highest - idle) / 1e6).toFixed(1)} MB above idle`);
});
