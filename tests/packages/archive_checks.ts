/** What the packages in GUESTD_TEST_PACKAGES are: `./build.sh package-test` runs this when it has made them. */

import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { command, output } from "../support/command.ts";
import { Scratch } from "../support/scratch.ts";

const PACKAGES = Deno.env.get("GUESTD_TEST_PACKAGES") ?? "";
const NAMES = Array.from(Deno.readDirSync(PACKAGES), ({ name }) => name).toSorted();
const DEBS = NAMES.filter((name) => name.endsWith(".deb"));
/** The newest glibc that a package may ask for, as [major, minor]. */
const OLDEST_GLIBC = 28;

/** The minor number of the newest glibc whose symbols a program asks for. */
function glibcOf(path: string): number {
  const versions = output("readelf", "-VW", path).matchAll(/\bGLIBC_2\.(\d+)/g);
  return Math.max(...Array.from(versions, ([, minor]) => Number(minor)));
}

for (const name of DEBS) {
  const deb = `${PACKAGES}/${name}`;

  Deno.test(`${name} needs glibc 2.28 or less, and says which`, () => {
    using scratch = new Scratch();
    output("dpkg-deb", "--extract", deb, scratch.path);
    const lib = scratch.join("usr/lib/guestd");
    const needed = [glibcOf(`${lib}/libguestd.so`), glibcOf(`${lib}/deno`)];
    ok(Math.max(...needed) <= OLDEST_GLIBC, needed.join(", "));
    // readelf that prints nothing would be as good as none.
    ok(Math.min(...needed) >= 17, needed.join(", "));
    const depends = output("dpkg-deb", "--field", deb, "Depends");
    match(
      depends,
      new RegExp(`^libc6 \\(>= 2\\.${Math.max(...needed)}\\), libgcc-s1 \\| libgcc1$`),
    );
  });

  Deno.test(`${name} has its files where they belong, none of them hidden, and all of them root's`, () => {
    const lines = output("dpkg-deb", "--contents", deb).split("\n");
    const rows = lines.map((line) => line.split(/\s+/));
    deepStrictEqual(rows.filter(([, owner]) => owner !== "root/root"), []);
    const files = rows.filter(([mode]) => mode?.startsWith("-")).map((row) => row.at(-1) ?? "");
    deepStrictEqual(files.filter((path) => /\/\.[^/]/.test(path)), []);
    deepStrictEqual(files, [
      "./etc/guestd.env",
      "./usr/bin/guestctl",
      "./usr/bin/guestd",
      "./usr/lib/guestd/deno",
      "./usr/lib/guestd/guestctl.js",
      "./usr/lib/guestd/guestd.js",
      "./usr/lib/guestd/libguestd.so",
      "./usr/lib/guestd/version",
      "./usr/lib/systemd/system/guestd.service",
      "./usr/lib/systemd/system/guestd.slice",
      "./usr/share/doc/guestd/copyright",
      "./usr/share/doc/guestd/sbom.cdx.json",
      "./usr/share/man/man1/guestctl.1.gz",
      "./usr/share/man/man8/guestd.8.gz",
    ]);
  });
}

Deno.test("every architecture has each kind of package, and SHA256SUMS has them all", async () => {
  strictEqual(NAMES.length, 1 + 4 * DEBS.length);
  const sums = Deno.readTextFileSync(`${PACKAGES}/SHA256SUMS`).trim().split("\n");
  const summed = sums.map((line) => line.split("  ")[1]);
  deepStrictEqual(summed, NAMES.filter((name) => name !== "SHA256SUMS"));
  const { code, said } = await command("sha256sum", ["--check", "SHA256SUMS"], { cwd: PACKAGES });
  strictEqual(code, 0, said);
});

Deno.test("a bill of materials has Deno, the crates and what guestctl bundles, each with a licence", () => {
  const boms = NAMES.filter((name) => name.endsWith(".cdx.json"));
  strictEqual(boms.length, DEBS.length);
  for (const name of boms) {
    const { components } = JSON.parse(Deno.readTextFileSync(`${PACKAGES}/${name}`)) as {
      components: { purl: string; licenses: { expression: string }[] }[];
    };
    const purls = components.map(({ purl }) => purl);
    for (
      const wanted of [
        "pkg:generic/deno@",
        "pkg:cargo/rustix@",
        "pkg:npm/commander@",
        "pkg:npm/%40noble/curves@",
      ]
    ) {
      strictEqual(purls.filter((purl) => purl.startsWith(wanted)).length, 1, wanted);
    }
    // What only tests use does not ship.
    deepStrictEqual(purls.filter((purl) => /proptest|fast-check|typescript/.test(purl)), []);
    const without = components.filter(({ licenses: [first] }) =>
      !/^[(A-Z]/.test(first?.expression ?? "") || first?.expression === "NOASSERTION"
    );
    deepStrictEqual(without, []);
  }
});

Deno.test("the library in a package names no directory of the machine that built it", () => {
  for (const name of DEBS) {
    using scratch = new Scratch();
    output("dpkg-deb", "--extract", `${PACKAGES}/${name}`, scratch.path);
    const text = new TextDecoder("latin1").decode(
      Deno.readFileSync(scratch.join("usr/lib/guestd/libguestd.so")),
    );
    const home = new URL("../../", import.meta.url).pathname;
    for (const part of [home, "/.cargo/", Deno.env.get("HOME") + "/"]) {
      strictEqual(text.includes(part), false, part);
    }
    ok(text.includes("rustix-"), "panics tell their crate");
  }
});
