/** The image build's own decisions, in a root of their own: what takes Debian's packages is tests/vm/'s. */

import { deepStrictEqual, match, notStrictEqual, strictEqual } from "node:assert/strict";
import { command, type Ended } from "../support/command.ts";
import { Scratch } from "../support/scratch.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const DENO_VERSION = Deno.readTextFileSync(`${ROOT}scripts/build/deno.sh`)
  .match(/^deno_version=(\S+)$/m)?.[1] ?? "";

/** A root with the checkout's scripts, and a program in the place of its deno. */
class BuildRoot extends Scratch {
  constructor() {
    super();
    for (const name of ["scripts", "image", "deno.json"]) {
      Deno.symlinkSync(`${ROOT}${name}`, this.join(name));
    }
    this.program(".tools/bin/deno", `echo 'deno ${DENO_VERSION} (stable)'`);
  }

  /** Writes a file, and the directories above it. */
  override file(name: string, content: string, mode?: number): string {
    Deno.mkdirSync(this.join(name).replace(/[^/]*$/, ""), { recursive: true });
    return super.file(name, content, mode);
  }

  /** Writes a shell script. */
  program(name: string, script: string): string {
    return this.file(name, `#!/bin/sh\n${script}\n`, 0o755);
  }

  /** Runs a script that has the functions of `image` at hand, and this for its checkout. */
  async run(script: string, env: Readonly<Record<string, string>> = {}): Promise<Ended> {
    const head = `set -euo pipefail
      root=${this.path} tools=$root/.tools caller_directory=$root
      cd "$root"
      source scripts/build/say.sh
      source scripts/build/image.sh
    `;
    return await command("bash", ["-c", head + script], { env: { DENORT_BIN: "", ...env } });
  }
}

const EMPTY_MODULE = "depends=\0";

function makeModules(scratch: BuildRoot): string {
  const modules = `${scratch.path}/modules`;
  scratch.file("modules/6/virtio.ko", EMPTY_MODULE);
  scratch.file("modules/6/virtio_ring.ko", EMPTY_MODULE);
  scratch.file("modules/6/virtio-blk.ko", "x\0depends=virtio,virtio_ring\0y");
  scratch.file("modules/6/modules.builtin", "kernel/drivers/virtio_rng.ko\n");
  return modules;
}

Deno.test("what no image can be made of is refused with a sentence: its size, architecture and denort", async () => {
  using scratch = new Scratch();
  // It is looked for from the caller's directory.
  const denort = scratch.file("denort", "text");
  const refusals: [args: string[], env: Record<string, string>, sentence: string][] = [
    [["image", "mips"], {}, "no guest image for 'mips': amd64 or arm64"],
    [["image"], { DENORT_BIN: "denort" }, `DENORT_BIN is no program for (amd64|arm64): ${denort}`],
    ...["abc", "64", "255", "-1", "2048M", "0"].map((size): typeof refusals[number] => [
      ["image"],
      { GUESTD_IMAGE_DISK_MIB: size },
      `at least 256: not '${size}'`,
    ]),
  ];
  for (const [args, env, sentence] of refusals) {
    const { code, said } = await command(`${ROOT}build.sh`, args, {
      env: { DENORT_BIN: "", ...env },
      cwd: scratch.path,
    });
    strictEqual(code, 2, said);
    match(said, new RegExp(sentence));
  }
});

Deno.test("the image takes the bundle when what is missing is the caller's, and no other failure", async () => {
  using scratch = new BuildRoot();
  const stub = "echo 'build.sh: one reason' >&2\necho 'build.sh: the reason' >&2\nexit ";
  const installs = `install_into() { echo "installed \${install_form:-bundle} into $*"; }
    install_daemon "$(host_arch)" "$root/stage"; echo "$form, $why"`;
  const after = async (code: number, env: Record<string, string> = {}): Promise<Ended> => {
    scratch.program("build.sh", `${stub}${code}`);
    return await scratch.run(installs, env);
  };
  const into = `into ${scratch.path}/stage`;

  const bundle = await after(2);
  strictEqual(bundle.out, `installed bundle ${into}\nbundle, the reason`, bundle.said);
  const compiled = await after(0);
  strictEqual(compiled.out, `installed compiled ${into}\ncompiled, a denort is at hand`);
  for (const failed of [await after(1), await after(2, { DENORT_BIN: "/a/denort" })]) {
    strictEqual(failed.out, "");
    match(failed.said, /one reason\nbuild\.sh: the reason/);
  }
});

Deno.test("an image of another size, of another form or older than the scripts is made anew", async () => {
  using scratch = new BuildRoot();
  for (const name of ["guestd.js", "guestctl.js", "libguestd.so"]) scratch.file(`dist/${name}`, "");
  for (const arch of ["amd64", "arm64"]) {
    scratch.file(`dist/image/${arch}/rootfs.ext4`, "");
    scratch.file(`dist/image/${arch}/form`, "bundle\n");
    scratch.file(`dist/image/${arch}/disk_mib`, "2048\n");
    scratch.file(`.tools/image/${arch}/unpacked/complete`, "");
  }
  const own = 'arch=$(host_arch); begin_stamp "image-$arch"; end_stamp "image-$arch"; ';
  const fresh = async (env: Record<string, string>, before = ""): Promise<string> => {
    const asked = `deno_for() { echo "$deno"; }; ${own}${before}
      image_fresh "$arch" && echo fresh || echo stale`;
    const { out, said } = await scratch.run(asked, env);
    return out || said;
  };
  strictEqual(await fresh({}), "fresh");
  strictEqual(await fresh({ GUESTD_IMAGE_DISK_MIB: "3072" }), "stale");
  strictEqual(await fresh({ DENORT_BIN: "/a/denort" }), "stale");
  const older = (newest: string): string =>
    `find dist .tools image scripts deno.json -exec touch -hd 2000-01-01 {} +
     touch -d 2001-01-01 "$stamps/image-$arch"
     touch -hd 2002-01-01 ${newest}
    `;
  strictEqual(await fresh({}, older(".")), "fresh");
  for (
    const newest of [
      "image",
      "scripts",
      "dist/guestd.js",
      "dist/guestctl.js",
      "dist/libguestd.so",
      "deno.json",
    ]
  ) {
    strictEqual(await fresh({}, older(newest)), "stale", newest);
  }
});

Deno.test("an image that is up to date is told, and in which form it has the daemon", async () => {
  using scratch = new BuildRoot();
  scratch.file("dist/image/amd64/form", "bundle\n");
  const { code, said } = await scratch.run(`need_tools() { :; }
    fetch_packages() { :; }
    fetch_own_busybox() { :; }
    ensure_parts() { :; }
    image_fresh() { :; }
    ensure_image amd64`);
  strictEqual(code, 0, said);
  match(said, /dist\/image\/amd64 is up to date, with the daemon as deno, bundle and library/);
});

Deno.test("each driver comes after those that it depends on, and one that is nowhere is told", async () => {
  using scratch = new BuildRoot();
  const modules = makeModules(scratch);
  const there = await scratch.run(`module_order ${modules} virtio_rng virtio_blk virtio`);
  const names = there.out.split("\n").map((path) => path.replace(/.*\//, ""));
  deepStrictEqual(names, ["virtio.ko", "virtio_ring.ko", "virtio-blk.ko"], there.said);
  const missing = await scratch.run(`module_order ${modules} virtio_blk virtio_net >list`);
  strictEqual(missing.code, 2);
  match(missing.said, /kernel has no driver virtio_net, neither as a module nor built in/);
});

Deno.test("packages are read in the layout of each of Debian's releases, compressed modules too", async () => {
  using scratch = new BuildRoot();
  makeModules(scratch);
  scratch.file("old/lib/x", "");
  scratch.file("new/usr/lib/x", "");
  const script = `xz modules/6/*.ko
    expand_modules modules
    (cd modules/6; ls)
    lib_of "$root/old" lib; lib_of "$root/new" lib; lib_of "$root/old" lib64
    for place in bin usr/bin; do
      unpacked=$tools/image/arm64/unpacked/busybox-static/$place
      mkdir -p "$unpacked"; touch "$unpacked/busybox"; chmod +x "$unpacked/busybox"
      busybox_of arm64
      rm "$unpacked/busybox"
    done
    busybox_of arm64 || echo none`;
  const { out, said } = await scratch.run(script);
  const busybox = ".tools/image/arm64/unpacked/busybox-static";
  deepStrictEqual(out.replaceAll(`${scratch.path}/`, "").split("\n"), [
    "modules.builtin",
    "virtio-blk.ko",
    "virtio.ko",
    "virtio_ring.ko",
    "old/lib",
    "new/usr/lib",
    `${busybox}/bin/busybox`,
    `${busybox}/usr/bin/busybox`,
    "none",
  ], said);
});

Deno.test("packages are fetched once, and again by a script that keeps other parts of them", async () => {
  using scratch = new BuildRoot();
  const ask = `update_lists() { die "it fetches"; }
    mkdir -p "$tools/image/amd64/unpacked"
    `;
  const fetch = `${ask} fetch_packages amd64; echo kept`;
  match((await scratch.run(fetch)).said, /it fetches/);
  const before = scratch.file(".tools/image/amd64/unpacked/complete", "");
  match((await scratch.run(fetch)).said, /it fetches/);
  await scratch.run(`${ask} cksum <scripts/build/debian.sh >${before}`);
  strictEqual((await scratch.run(fetch)).out, "kept");
});

Deno.test("Debian out of reach is a sentence and exit code 2, though apt-get update takes it for a success", async () => {
  using scratch = new BuildRoot();
  const { code, said } = await scratch.run(`mkdir -p "$tools/log"
    update_lists() { echo 'W: Failed to fetch' >"$tools/log/apt.log"; }
    apt_for() { return 100; }
    fetch_packages amd64`);
  strictEqual(code, 2, said);
  match(said, / {2}\| W: Failed to fetch\nbuild\.sh: .* needs Debian's linux-image-cloud-amd64/);
});

Deno.test("the guest gets the pinned Deno itself, whatever stands in its place here", async () => {
  const ask = 'deno_for "$(host_arch)"';
  const fetched = new RegExp(`/\\.tools/deno-(amd64|arm64)-${RegExp.escape(DENO_VERSION)}/deno$`);
  using shim = new BuildRoot();
  match((await shim.run(ask)).out, fetched);
  using real = new BuildRoot();
  await Deno.remove(`${real.path}/.tools/bin/deno`);
  await Deno.symlink(Deno.execPath(), `${real.path}/.tools/bin/deno`);
  const own = (await real.run(ask)).out;
  // These tests may run on another version, by GUESTD_DENO, which is not taken.
  if (Deno.version.deno !== DENO_VERSION) match(own, fetched);
  else strictEqual(own, await Deno.realPath(Deno.execPath()));
});

Deno.test("a rustc too old for the library is not taken for the cross build", async () => {
  using scratch = new BuildRoot();
  for (const [minor, works] of [[63, "no"], [84, "no"], [85, "yes"], [96, "yes"]] as const) {
    scratch.program("rustc", `echo 'rustc 1.${minor}.1 (0000 2026-01-01)'`);
    const { out } = await scratch.run("rustc_works ./rustc && echo yes || echo no");
    strictEqual(out, works, `1.${minor}`);
  }
});

Deno.test("either form is staged, starts, and writes no file", async () => {
  using scratch = new BuildRoot();
  Deno.mkdirSync(scratch.join("dist"));
  for (const name of ["guestd.js", "guestctl.js", "libguestd.so"]) {
    Deno.copyFileSync(`${ROOT}dist/${name}`, scratch.join(`dist/${name}`));
  }
  const arch = Deno.build.arch === "x86_64" ? "amd64" : "arm64";
  const stage = async (form: string): Promise<string> => {
    const { code, said } = await scratch.run(`deno_for() { echo ${Deno.execPath()}; }
      stage_daemon ${arch} "$root/${form}" ${form} "$(library_for ${arch})"`);
    strictEqual(code, 0, said);
    return scratch.join(form);
  };
  const { version } = JSON.parse(await Deno.readTextFile(`${ROOT}deno.json`)) as {
    version: string;
  };
  const bundle = await stage("bundle");
  const names = (): string[] =>
    Array.from(Deno.readDirSync(`${bundle}/usr/lib/guestd`), ({ name }) => name).toSorted();
  const before = names();
  for (const program of ["guestd", "guestctl"]) {
    const launched = await command(`${bundle}/usr/bin/${program}`, ["--version"]);
    strictEqual(launched.out, version, launched.said);
  }
  // It writes nothing, for the disk may be full: Deno's caches would be there.
  deepStrictEqual(names(), before);
  deepStrictEqual(before, ["deno", "guestctl.js", "guestd.js", "libguestd.so", "version"]);

  // The library inside would be written to TMPDIR at every start: the one beside it is taken.
  scratch.program("dist/guestd", 'echo "$GUESTD_LIBRARY $DENO_TOKIO_EVENT_INTERVAL $*"');
  const compiled = await stage("compiled");
  const started = await command(`${compiled}/usr/bin/guestd`, ["--version"]);
  strictEqual(started.out, `${compiled}/usr/lib/guestd/libguestd.so 1 --version`, started.said);
  const named = await command(`${compiled}/usr/bin/guestd`, [], { env: { GUESTD_LIBRARY: "/x" } });
  strictEqual(named.out, "/x 1", named.said);
});

Deno.test("CI skips its guest only for want of a tool, and never where it could install that", async () => {
  using scratch = new BuildRoot();
  const cases = [[0, 1, "ran 0"], [1, 1, "1"], [2, 1, "0"], [2, 0, "1"]] as const;
  for (const [code, uid, expected] of cases) {
    const script = `source scripts/build/ci.sh
      need_qemu() { :; }
      ensure_image() { return ${code}; }
      id() { echo ${uid}; }
      guest_suites() { printf 'ran '; }
      guest_part
      echo "$failed"`;
    const { out, said } = await scratch.run(script);
    strictEqual(out, expected, `code ${code}, user ${uid}: ${said}`);
  }
});

Deno.test("an image build leaves nothing behind, when it is interrupted or fails and from before", async () => {
  using scratch = new BuildRoot();
  scratch.file(".tools/image/amd64/stage.before/file", "");
  for (const end of ["kill -TERM $BASHPID", "kill -INT $BASHPID", "false"]) {
    // As its steps do, this one has a local of its own by a name that others use too.
    const script = `make_initramfs() { mkdir -p "$2"; : >"$3"; }
      make_root() { local stage=$2; mkdir -p "$stage"; : >"$root/dist/image/amd64/rootfs.ext4.new"; ${end}; }
      build_image amd64`;
    const { code, said } = await scratch.run(script);
    notStrictEqual(code, 0, said);
    const left = (name: string): string[] =>
      Array.from(Deno.readDirSync(scratch.join(name)), (entry) => entry.name);
    deepStrictEqual(left(".tools/image/amd64"), [], `${end}: ${said}`);
    deepStrictEqual(left("dist/image/amd64"), ["initrd.gz"]);
  }
});
