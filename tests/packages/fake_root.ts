/** Trees as install.sh finds them: what a package brings, and roots of several distributions, none with more than names. */

import { command, type Ended } from "../support/command.ts";
import { Scratch } from "../support/scratch.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

const MACHINES = { amd64: 0x3e, arm64: 0xb7 } as const;

/** What ./build.sh stages, with small files, for amd64 and glibc 2.28. */
export class Staged extends Scratch {
  /** `needs` adds to what the files need, or says it anew. */
  constructor(needs: Readonly<Record<string, string>> = {}) {
    super();
    Deno.copyFileSync(`${ROOT}image/install.sh`, this.join("install.sh"));
    this.deep("root/usr/bin/guestd", "#!/bin/sh\n", 0o755);
    this.deep("root/usr/lib/guestd/deno", "deno", 0o755);
    this.deep("root/usr/lib/guestd/version", "0.10.0\n");
    this.deep("root/usr/share/doc/guestd/copyright", "MIT\n");
    this.deep("root/etc/guestd.env", "NEW=1\n");
    const all = { version: "0.10.0", arch: "amd64", glibc: "2.28", kib: "100", ...needs };
    const lines = Object.entries(all).map(([name, value]) => `${name}=${value}\n`);
    this.file("needs", lines.join(""));
  }

  /** Writes a file, and the directories above it. */
  deep(name: string, content: string | Uint8Array, mode?: number): string {
    Deno.mkdirSync(this.join(name).replace(/[^/]*$/, ""), { recursive: true });
    return this.file(name, content, mode);
  }

  /** Runs install.sh with these arguments. */
  async install(...args: string[]): Promise<Ended> {
    return await command("sh", [this.join("install.sh"), ...args]);
  }
}

/** As much of a C library as is looked at. */
export function libc(arch: keyof typeof MACHINES, version: string): Uint8Array {
  const said =
    `\0GNU C Library (Some GLIBC ${version}-1) stable release version ${version}.\nMore\0`;
  const bytes = new Uint8Array([...new Uint8Array(64), ...new TextEncoder().encode(said)]);
  bytes.set([0x7f, 0x45, 0x4c, 0x46]);
  bytes[18] = MACHINES[arch];
  return bytes;
}

/** Writes files below a directory. */
export function fill(
  directory: string,
  files: Readonly<Record<string, string | Uint8Array>>,
): void {
  for (const [name, content] of Object.entries(files)) {
    const path = `${directory}/${name}`;
    Deno.mkdirSync(path.replace(/[^/]*$/, ""), { recursive: true });
    Deno.writeFileSync(
      path,
      typeof content === "string" ? new TextEncoder().encode(content) : content,
    );
  }
}

/** Every file below a directory, with its mode and content. */
export function listing(directory: string, below = ""): string[] {
  return Array.from(Deno.readDirSync(`${directory}/${below}`)).flatMap(({ name, isDirectory }) => {
    const path = `${below}${name}`;
    if (isDirectory) return listing(directory, `${path}/`);
    const mode = ((Deno.statSync(`${directory}/${path}`).mode ?? 0) & 0o777).toString(8);
    return [`${path} ${mode} ${Deno.readTextFileSync(`${directory}/${path}`).slice(0, 40)}`];
  }).toSorted();
}
