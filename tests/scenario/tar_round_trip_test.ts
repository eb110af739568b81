import { deepStrictEqual, match, strictEqual } from "node:assert/strict";
import { output } from "../support/command.ts";
import { text } from "../support/answers.ts";
import { putTar } from "../support/files_client.ts";
import { Scratch } from "../support/scratch.ts";
import { treeOf } from "../support/tree.ts";
import { sharedDaemon } from "../support/with_daemon.ts";

const PYTHON = `
import sys, tarfile
what, archive, tree, *more = sys.argv[1:]
if what == "write":
    with tarfile.open(archive, "w", format=getattr(tarfile, more[0])) as out:
        out.add(tree, arcname=".")
else:
    with tarfile.open(archive) as found:
        found.extractall(tree, filter="fully_trusted") if sys.version_info >= (3, 12) else found.extractall(tree)
`;

/** A tree with everything that archives carry. */
function furnish(scratch: Scratch, root: string): void {
  const script = `
    mkdir -p dir/empty dir/closed; echo content > dir/file; chmod 751 dir/file; : > empty
    ln -s dir/file link; ln -s ../link dir/up; ln dir/file hard; ln dir/file dir/hard2
    mkdir $(printf 'd%0120d' 0); echo x > $(printf 'd%0120d' 0)/$(printf 'f%0200d' 0)
    ln -s $(printf 't%0150d' 0) far
    echo y > 'sp ace
line'; chmod 500 dir/closed; chmod 700 dir/empty
    truncate -s 3000000 sparse; printf tail >> sparse; printf mid | dd of=sparse bs=1 seek=1500000 conv=notrunc status=none
    head -c 300000 /dev/urandom > random; head -c 2500000 /dev/urandom > dir/large
    touch -d @1000000000 dir/file; touch -d @1 empty; touch -d @1234567890 dir/empty dir; touch -d @1234567891 .`;
  output("sh", "-ec", `mkdir ${scratch.join(root)}; cd ${scratch.join(root)}; ${script}`);
}

function has(command: string): boolean {
  try {
    return new Deno.Command(command, { args: ["--help"], stdout: "null", stderr: "null" })
      .outputSync().code < 126;
  } catch {
    return false;
  }
}

/** Programs that write an archive of a tree: name, program, arguments. */
function writers(archive: string, tree: string): readonly (readonly [string, string, string[]])[] {
  const gnu = (format: string, ...more: string[]): readonly [string, string, string[]] => [
    `GNU tar, ${[format, ...more].join(" ")}`,
    "tar",
    ["-cf", archive, `--format=${format}`, ...more, "-C", tree, "."],
  ];
  const python = (format: string): readonly [string, string, string[]] => [
    `Python, ${format}`,
    "python3",
    ["-c", PYTHON, "write", archive, tree, format],
  ];
  return [
    gnu("gnu"),
    gnu("posix"),
    gnu("gnu", "--sparse"),
    gnu("posix", "--sparse", "--sparse-version=0.0"),
    gnu("posix", "--sparse", "--sparse-version=0.1"),
    gnu("posix", "--sparse", "--sparse-version=1.0"),
    gnu("gnu", "--label=a label"),
    gnu("posix", "--label=a label"),
    gnu("gnu", "--incremental"),
    gnu("posix", "--incremental"),
    python("PAX_FORMAT"),
    python("GNU_FORMAT"),
    ["bsdtar, pax", "bsdtar", ["-cf", archive, "--format=pax", "-C", tree, "."]],
    ["bsdtar, gnutar", "bsdtar", ["-cf", archive, "--format=gnutar", "-C", tree, "."]],
    ["busybox", "busybox", ["tar", "-cf", archive, "-C", tree, "."]],
  ];
}

sharedDaemon.test("trees packed by other programs are extracted as they were", async ({ daemon, scratch, t }) => {
  furnish(scratch, "tree");
  const wanted = treeOf(scratch.join("tree"), { stat: true });
  for (const [name, program, args] of writers(scratch.join("tar"), scratch.join("tree"))) {
    await t.step({
      name,
      ignore: !has(program),
      fn: async () => {
        output(program, ...args);
        const body = Deno.readFileSync(scratch.join("tar"));
        strictEqual(await text(await putTar(daemon, scratch.join("out"), body), 204), "");
        deepStrictEqual(treeOf(scratch.join("out"), { stat: true }), wanted);
        // A second time over what is there changes nothing.
        await daemon.guest.uploadTar(scratch.join("out"), body);
        deepStrictEqual(treeOf(scratch.join("out"), { stat: true }), wanted);
        output("rm", "-rf", scratch.join("out"));
      },
    });
  }
});

sharedDaemon.test("what was sparse in the archive is sparse on disk", async ({ daemon, scratch }) => {
  furnish(scratch, "tree");
  output("tar", "-cSf", scratch.join("tar"), "-C", scratch.join("tree"), ".");
  await daemon.guest.uploadTar(scratch.join("out"), Deno.readFileSync(scratch.join("tar")));
  const { size, blocks } = Deno.statSync(scratch.join("out/sparse"));
  strictEqual(size, 3_000_004);
  strictEqual((blocks ?? 0) * 512 < 1_000_000, true);
});

/** Programs that extract an archive into a directory. */
function readers(archive: string, into: string): readonly (readonly [string, string, string[]])[] {
  return [
    ["GNU tar", "tar", ["-xpf", archive, "-C", into]],
    ["Python", "python3", ["-c", PYTHON, "read", archive, into]],
    ["bsdtar", "bsdtar", ["-xpf", archive, "-C", into]],
    ["busybox", "busybox", ["tar", "-xpf", archive, "-C", into]],
  ];
}

sharedDaemon.test("trees packed here are extracted by other programs as they were", async ({ daemon, scratch, t }) => {
  furnish(scratch, "tree");
  const wanted = treeOf(scratch.join("tree"), { stat: true });
  const body = await (await daemon.guest.downloadTar(scratch.join("tree"))).bytes();
  Deno.writeFileSync(scratch.join("tar"), body);
  for (const [name, program, args] of readers(scratch.join("tar"), scratch.join("out"))) {
    await t.step({
      name,
      ignore: !has(program),
      fn: () => {
        Deno.mkdirSync(scratch.join("out"));
        output(program, ...args);
        // busybox gives directories no times.
        const stat = program !== "busybox";
        // bsdtar gives none to the root.
        const lines = (root: string): string[] =>
          treeOf(scratch.join(root), { stat }).filter((line) =>
            program !== "bsdtar" || !line.startsWith(". ")
          );
        deepStrictEqual(lines("out"), lines("tree"));
        output("rm", "-rf", scratch.join("out"));
      },
    });
  }
  await daemon.guest.uploadTar(scratch.join("out"), body);
  deepStrictEqual(treeOf(scratch.join("out"), { stat: true }), wanted);
  match(wanted[0] ?? "", /^\. 755 1234567891$/);
  deepStrictEqual(await (await daemon.guest.downloadTar(scratch.join("out"))).bytes(), body);
  match(output("tar", "-tvf", scratch.join("tar")), /dir\/hard2 link to dir\/file|hard/);
});
