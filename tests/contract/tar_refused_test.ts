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

/** Archives that are refused: what they are made of, the status, what the answer names. */
const REFUSED: Readonly<
  Record<string, readonly [parts: readonly Part[], status: number, says: RegExp]>
> = {
  "an absolute name": [[{ name: "/etc/owned" }], 400, /\/etc\/owned: it is absolute/],
  "a name that leads out": [[{ name: "a/../../owned" }], 400, /a\/\.\.\/\.\.\/owned/],
  "only dots": [[{ name: "..", type: "5" }], 400, /\.\.: it leads out/],
  "a file in place of the root": [[{ name: "./." }], 400, /replace the root/],
  "an empty name": [[{ name: "" }], 400, /no name/],
  "writing through a symlink": [
    [{ name: "out", type: "2", link: "." }, { name: "out/owned", content: "x" }],
    400,
    /out\/owned: it leads through the symlink out/,
  ],
  "writing through a chain of symlinks": [
    [
      { name: "a/b", type: "2", link: ".." },
      { name: "c", type: "2", link: "a/b" },
      { name: "c/owned" },
    ],
    400,
    /c\/owned/,
  ],
  "writing through a hard link to a symlink": [
    [
      { name: "a", type: "2", link: "." },
      { name: "b", type: "1", link: "a" },
      { name: "b/owned" },
    ],
    400,
    /b\/owned/,
  ],
  "a directory through a symlink": [
    [{ name: "a", type: "2", link: "b" }, { name: "a/c/", type: "5" }],
    400,
    /a\/c/,
  ],
  "a symlink in place of a directory": [
    [{ name: "a/b" }, { name: "a", type: "2", link: "." }],
    400,
    /a: it would replace a directory/,
  ],
  "a file as a directory": [[{ name: "a" }, { name: "a/b" }], 400, /through the file a/],
  "a directory in place of a file": [
    [{ name: "a" }, { name: "a/", type: "5" }],
    400,
    /a\/: it would/,
  ],
  "an absolute symlink": [[{ name: "l", type: "2", link: "/etc" }], 400, /l: it has an absolute/],
  "a symlink out": [[{ name: "d/l", type: "2", link: "../../x" }], 400, /d\/l: .* out of the root/],
  "a symlink to nothing": [[{ name: "l", type: "2", link: "" }], 400, /empty link target/],
  "an absolute hard link": [[{ name: "h", type: "1", link: "/etc/passwd" }], 400, /h: .*absolute/],
  "a hard link out": [[{ name: "h", type: "1", link: "../x" }], 400, /h: .* out of the root/],
  "a hard link to what is not there": [
    [{ name: "h", type: "1", link: "x" }],
    400,
    /h: it is a hard/,
  ],
  "a hard link to what comes later": [
    [{ name: "h", type: "1", link: "x" }, { name: "x" }],
    400,
    /h: it is a hard link/,
  ],
  "a hard link to a directory": [
    [{ name: "d/", type: "5" }, { name: "h", type: "1", link: "d" }],
    400,
    /h: .* directory/,
  ],
  "a hard link through a symlink": [
    [
      { name: "d/f" },
      { name: "l", type: "2", link: "d" },
      { name: "h", type: "1", link: "l/f" },
    ],
    400,
    /h: .* symlink/,
  ],
  "a hard link to a symlink, from where that leads out": [
    [
      { name: "d/e/l", type: "2", link: "../../x" },
      { name: "d/e/f/l", type: "1", link: "d/e/l" },
      { name: "d/h", type: "1", link: "d/e/f/l" },
    ],
    400,
    /d\/h: .* out of the root/,
  ],
  "a hard link to itself": [[{ name: "h" }, { name: "h", type: "1", link: "h" }], 400, /itself/],
  "a character device": [[{ name: "dev", type: "3" }], 400, /dev: it is a device/],
  "a block device": [[{ name: "dev", type: "4" }], 400, /dev: it is a device/],
  "a fifo": [[{ name: "pipe", type: "6" }], 400, /pipe: it is a fifo/],
  "an unknown kind": [[{ name: "odd", type: "Q" }], 400, /odd: it is of a kind/],
  "a symlink with content": [
    [{ name: "l", type: "2", link: "x", content: "y" }],
    400,
    /l: it has content/,
  ],
  "a directory with content": [[{ name: "d", type: "5", content: "y" }], 400, /d: it has content/],
  "nine GiB": [[{ name: "huge", size: base256(9n * GIB) }], 413, /huge: it is larger/],
  "eight GiB in two": [
    [
      { name: "a", type: "S", spoil: sparse(5n * GIB) },
      { name: "b", type: "S", spoil: sparse(4n * GIB) },
    ],
    413,
    /b: the archive has more than 8589934592 bytes/,
  ],
  "a negative size": [[{ name: "n", size: base256(-1n) }], 400, /n: it has a negative size/],
  "a size of 96 bits": [[{ name: "n", size: base256(2n ** 80n) }], 400, /n: it has a size/],
  "a size of 64 bits": [[{ name: "n", size: base256(2n ** 63n - 1n) }], 413, /n: it is larger/],
  "a size that is no number": [[{ name: "n", size: "99999999999\0" }], 400, /n: it has a size/],
  "a mode that is no number": [
    [{ name: "n", spoil: (h) => (h.set([0x7a], 100), sign(h)) }],
    400,
    /n: it has a mode/,
  ],
  "content that is not there": [[{ name: "n", size: octal(2000, 12) }], 400, /n: it is truncated/],
  "a wrong checksum": [
    [{ name: "n", spoil: (h) => h.set([0x31], 150) }],
    400,
    /no tar header at byte 1024/,
  ],
  "a size in an extended header that lies": [
    [extended({ size: "100000" }, { name: "n", content: "x" })],
    400,
    /n: it is truncated/,
  ],
  "nine GiB in an extended header": [
    [extended({ size: String(9n * GIB) }, { name: "n", content: "x" })],
    413,
    /n: it is larger/,
  ],
  "a size in an extended header that overflows": [
    [extended({ size: "99999999999999999999" }, { name: "n" })],
    400,
    /malformed extended header/,
  ],
  "a path in an extended header that leads out": [
    [extended({ path: "../owned" }, { name: "n" })],
    400,
    /\.\.\/owned/,
  ],
  "a link in an extended header that leads out": [
    [extended({ linkpath: "/etc/passwd" }, { name: "n", type: "2", link: "fine" })],
    400,
    /n: it has an absolute/,
  ],
  "a NUL in an extended header's path": [
    [extended({ path: "a\0b" }, { name: "n" })],
    400,
    /holds a NUL/,
  ],
  "a global header that names": [
    [extended({ path: "n" }, { name: "m" }, "g")],
    400,
    /global header/,
  ],
  "an extended header that lies about its length": [
    [{ name: "x", type: "x", content: "99 path=n\n" }, { name: "m" }],
    400,
    /malformed extended header at byte 1024/,
  ],
  "an extended header of eight MiB": [
    [{ name: "x", type: "x", size: octal(8 << 20, 12) }],
    400,
    /without a sane size/,
  ],
  "an extended header without a member": [
    [{ name: "x", type: "x", content: record("path", "n") }],
    400,
    /truncated/,
  ],
  "a component of 256 bytes": [
    [extended({ path: "x".repeat(256) }, { name: "n" })],
    400,
    /255 bytes/,
  ],
  "a long name that leads out": [
    [{ name: "././@LongLink", type: "L", content: "../owned\0" }, { name: "n" }],
    400,
    /\.\.\/owned/,
  ],
  "a sparse map that overlaps": [
    [extended({
      "GNU.sparse.major": "0",
      "GNU.sparse.minor": "1",
      "GNU.sparse.map": "0,5,3,5",
      "GNU.sparse.size": "10",
    }, { name: "n", content: "0123456789" })],
    400,
    /n: it has a broken map/,
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
  for (const [what, [parts, status, says]] of Object.entries(REFUSED)) {
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
