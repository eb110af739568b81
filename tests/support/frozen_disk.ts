/** A disk that hangs: a small ext4 on a loop device, frozen and thawed. */

import { Mounted, run } from "./tmpfs.ts";

/** A file system of a test's own that can be frozen; thawed, unmounted and removed at the end of the block. */
export class FrozenDisk extends Mounted {
  /** Mounts one of `bytes`; undefined where that is not permitted. */
  static mount(bytes: number): FrozenDisk | undefined {
    const path = Deno.makeTempDirSync({ prefix: "guestd-disk-" });
    const image = `${path}.image`;
    Deno.writeFileSync(image, new Uint8Array());
    Deno.truncateSync(image, bytes);
    const made = run("mkfs.ext4", "-q", "-F", image) && run("mount", "-o", "loop", image, path);
    // The mount keeps what has no name any more.
    Deno.removeSync(image);
    if (made) return new FrozenDisk(path);
    Deno.removeSync(path);
    return undefined;
  }

  /** From now on whoever writes to it waits. */
  freeze(): void {
    if (!run("fsfreeze", "-f", this.path)) throw new Error(`Cannot freeze ${this.path}`);
  }

  /** Whoever waits goes on. */
  thaw(): void {
    run("fsfreeze", "-u", this.path);
  }

  override [Symbol.dispose](): void {
    this.thaw();
    super[Symbol.dispose]();
  }
}
