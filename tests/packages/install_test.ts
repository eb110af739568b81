import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { asRoot } from "../support/as_root.ts";
import { Scratch } from "../support/scratch.ts";
import { Tmpfs } from "../support/tmpfs.ts";
import { fill, libc, listing, Staged } from "./fake_root.ts";

const GCC = { "usr/lib/x86_64-linux-gnu/libgcc_s.so.1": "" };
const DEBIAN = { "usr/lib/x86_64-linux-gnu/libc.so.6": libc("amd64", "2.36"), ...GCC };

const REFUSED: [what: string, files: Record<string, string | Uint8Array>, sentence: RegExp][] = [
  [
    "another processor",
    { "lib/aarch64-linux-gnu/libc.so.6": libc("arm64", "2.36") },
    /is for another processor \(arm64\), and this guestd is for amd64/,
  ],
  ["musl", { "lib/ld-musl-x86_64.so.1": "" }, /has musl for its C library, and Deno needs glibc/],
  [
    "an older glibc",
    { ...GCC, "lib64/libc.so.6": libc("amd64", "2.17") },
    /has glibc 2\.17, and this guestd needs 2\.28 or later/,
  ],
  ["no C library", { "bin/sh": "" }, /has no glibc: it is no root that guestd can run in/],
  [
    "a glibc alone",
    { "lib64/libc.so.6": libc("amd64", "2.36") },
    /has no libgcc_s\.so\.1, which Deno needs/,
  ],
  [
    "a newer guestd",
    { ...DEBIAN, "usr/lib/guestd/version": "0.10.1\n" },
    /has guestd 0\.10\.1, which is newer than 0\.10\.0: --downgrade installs/,
  ],
];

for (const [what, files, sentence] of REFUSED) {
  Deno.test(`a root with ${what} is refused with a sentence, and stays as it is`, async () => {
    using staged = new Staged();
    using root = new Scratch();
    fill(root.path, files);
    const before = listing(root.path);
    const { code, said } = await staged.install(root.path);
    match(said, sentence);
    deepStrictEqual([code, said.trim().split("\n").length], [1, 1], said);
    deepStrictEqual(listing(root.path), before);
  });
}

Deno.test("what is installed is whole, keeps the settings that are there, and is gone once it is removed", async () => {
  using staged = new Staged();
  using root = new Scratch();
  // A multi-architecture root, whose other C library is looked at first.
  fill(root.path, { "lib/aarch64-linux-gnu/libc.so.6": libc("arm64", "2.17"), ...DEBIAN });
  const before = listing(root.path);
  const first = await staged.install(root.path);
  strictEqual(first.code, 0, first.said);
  const brought = listing(root.path).filter((line) => !before.includes(line));
  deepStrictEqual(brought, [
    "etc/guestd.env 644 NEW=1\n",
    "usr/bin/guestd 755 #!/bin/sh\n",
    "usr/lib/guestd/deno 755 deno",
    "usr/lib/guestd/version 644 0.10.0\n",
    "usr/share/doc/guestd/copyright 644 MIT\n",
  ]);

  fill(root.path, {
    "etc/guestd.env": "OLD=1\n",
    "usr/lib/guestd/of_before": "",
    "usr/lib/guestd/deno": "old",
  });
  const again = await staged.install(root.path);
  strictEqual(again.code, 0, again.said);
  const kept = brought.map((line) => line.replace("NEW", "OLD"));
  deepStrictEqual(listing(root.path).filter((line) => !before.includes(line)), kept);

  const removed = await staged.install("--remove", root.path);
  strictEqual(removed.code, 0, removed.said);
  const left = listing(root.path).filter((line) => !before.includes(line));
  deepStrictEqual(left, ["etc/guestd.env 644 OLD=1\n"]);
});

Deno.test("versions are compared by their numbers, and --downgrade goes back", async () => {
  const cases = [["0.10.0", 0], ["0.9.9", 0], ["0.10", 0], ["1.0.0", 1], [
    "0.11.0-rc1",
    1,
  ]] as const;
  for (const [before, expected] of cases) {
    using staged = new Staged();
    using root = new Scratch();
    fill(root.path, { ...DEBIAN, "usr/lib/guestd/version": `${before}\n` });
    strictEqual((await staged.install(root.path)).code, expected, before);
    const { code, said } = await staged.install("--downgrade", root.path);
    strictEqual(code, 0, said);
    strictEqual(Deno.readTextFileSync(root.join("usr/lib/guestd/version")), "0.10.0\n");
  }
});

Deno.test("an empty directory is filled, and a line says that it was not looked at", async () => {
  using staged = new Staged();
  using root = new Scratch();
  const { code, said } = await staged.install(root.join("new"));
  strictEqual(code, 0, said);
  match(said, /is empty: what it will become is not looked at/);
});

Deno.test("what install.sh is called with is checked", async () => {
  using staged = new Staged();
  for (const args of [[], ["a", "b"], ["--all", "/x"], [""]]) {
    const { code, said } = await staged.install(...args);
    strictEqual(code, 2, args.join(" "));
    match(said, /^usage: install\.sh/);
  }
});

asRoot.test("a disk with too little room, or none left in the middle, has what it had", async () => {
  using disk = Tmpfs.mount(1 << 20) ?? new Scratch();
  fill(disk.path, { ...DEBIAN, "usr/lib/guestd/deno": "old", "usr/lib/guestd/version": "0.9.0\n" });
  const before = listing(disk.path);
  using large = new Staged({ kib: "4096" });
  large.deep("root/usr/lib/guestd/deno", "x".repeat(4 << 20), 0o755);
  const refused = await large.install(disk.path);
  match(refused.said, /too little room: guestd takes 4 MiB, and 0 are free/);
  deepStrictEqual([refused.code, listing(disk.path)], [1, before]);
  // It needs more than it says: as where somebody else fills the disk meanwhile.
  using liar = new Staged({ kib: "100" });
  liar.deep("root/usr/lib/guestd/deno", "x".repeat(4 << 20), 0o755);
  const cut = await liar.install(disk.path);
  match(cut.said, /cannot write to .*: nothing was changed$/m);
  deepStrictEqual([cut.code, listing(disk.path)], [1, before]);
});

asRoot.test("a root that is read-only is told, and nothing of it is lost", async () => {
  using disk = Tmpfs.mount(1 << 20);
  if (disk === undefined) throw new Error("Cannot mount a tmpfs");
  fill(disk.path, { ...DEBIAN, "usr/lib/guestd/version": "0.9.0\n" });
  const before = listing(disk.path);
  disk.remountReadOnly();
  using staged = new Staged();
  const { code, said } = await staged.install(disk.path);
  match(said, /^install\.sh: cannot write to .*: it is read-only, or another user's\n$/);
  deepStrictEqual([code, listing(disk.path)], [1, before]);
});

Deno.test("a daemon that runs is replaced beneath its feet, goes on, and is told of", async () => {
  using staged = new Staged();
  using root = new Scratch();
  fill(root.path, DEBIAN);
  const program = root.join("usr/lib/guestd/deno");
  Deno.mkdirSync(root.join("usr/lib/guestd"));
  Deno.copyFileSync("/bin/cat", program);
  Deno.chmodSync(program, 0o755);
  const child = new Deno.Command(program, { stdin: "piped", stdout: "piped" }).spawn();
  const { code, said } = await staged.install(root.path);
  strictEqual(code, 0, said);
  match(said, new RegExp(`process ${child.pid} goes on as the version that it is`));
  strictEqual(Deno.readTextFileSync(program), "deno");
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode("still here"));
  await writer.close();
  strictEqual(new TextDecoder().decode((await child.output()).stdout), "still here");
});
