/** A distribution's root directory for one test: what is written to it lies in memory, and goes at the end. */

import { command, type Ended } from "../support/command.ts";
import { run } from "../support/tmpfs.ts";

function mount(...args: string[]): void {
  if (!run("mount", ...args)) throw new Error(`Cannot mount: ${args.join(" ")}`);
}

/** An overlay over a root that stays as it is, with /proc and /dev; only root can make one. */
export class OverlaidRoot implements Disposable {
  /** Where it is mounted. */
  readonly path: string;
  readonly #directory: string;

  /** Over the root at `lower`, with room for so many MiB. */
  constructor(lower: string, mib: number) {
    const directory = this.#directory = Deno.makeTempDirSync({ prefix: "guestd-root-" });
    mount("-t", "tmpfs", "-o", `size=${mib}m`, "tmpfs", directory);
    for (const name of ["upper", "work", "root"]) Deno.mkdirSync(`${directory}/${name}`);
    this.path = `${directory}/root`;
    const layers = `lowerdir=${lower},upperdir=${directory}/upper,workdir=${directory}/work`;
    mount("-t", "overlay", "-o", layers, "overlay", this.path);
    mount("-t", "proc", "proc", `${this.path}/proc`);
    mount("--rbind", "--make-rslave", "/dev", `${this.path}/dev`);
  }

  /** Runs a program in it, as root, with nothing of this machine's environment. */
  async run(program: string, ...args: string[]): Promise<Ended> {
    const path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    const clean = ["/usr/bin/env", "-i", path, "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"];
    return await command("chroot", [this.path, ...clean, program, ...args]);
  }

  /** Copies a file of this machine into it, and gives its path there. */
  take(file: string): string {
    const path = `/root/${file.replace(/.*\//, "")}`;
    Deno.copyFileSync(file, this.path + path);
    return path;
  }

  /** What differs from the root beneath, files alone, but for what package managers keep for themselves. */
  changes(below = ""): string[] {
    return Array.from(Deno.readDirSync(`${this.#directory}/upper/${below}`)).flatMap(
      ({ name, isDirectory }) => {
        const path = `${below}/${name}`;
        if (/^\/(var\/(lib\/(dpkg|rpm)|log|cache)|root|proc|dev)(\/|$)/.test(path)) return [];
        return isDirectory ? this.changes(path) : [path];
      },
    ).toSorted();
  }

  remountReadOnly(): void {
    mount("-o", "remount,ro", this.path);
  }

  [Symbol.dispose](): void {
    run("umount", "--recursive", "--lazy", this.#directory);
    Deno.removeSync(this.#directory);
  }
}
