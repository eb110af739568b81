/** A disk that hangs: a small ext4 on a loop device, frozen and thawed. */

import { run } from "./tmpfs.ts";

/** A file system of a test's own that can be frozen; thawed, unmounted and removed at the end of the block. */
export class FrozenDisk implements Disposable {
  readonly path: string;
  readonly #image: string;

  private constructor(path: string, image: string) {
    this.path = path;
    this.#image = image;
  }

  /** Mounts one of `bytes`; undefined where that is not permitted. */
  static mount(bytes: number): FrozenDisk | undefined {
    const dir = Deno.makeTempDirSync({ prefix: "guestd-disk-" });
    const [image, path] = [`${dir}/image`, `${dir}/mounted`];
    Deno.mkdirSync(path);
    Deno.writeFileSync(image, new Uint8Array());
    Deno.truncateSync(image, bytes);
    if (run("mkfs.ext4", "-q", "-F", image) && run("mount", "-o", "loop", image, path)) {
      return new FrozenDisk(path, image);
    }
    Deno.removeSync(dir, { recursive: true });
    return undefined;
  }

  join(name: string): string {
    return `${this.path}/${name}`;
  }

  /** From now on whoever writes to it waits. */
  freeze(): void {
    if (!run("fsfreeze", "-f", this.path)) throw new Error(`Cannot freeze ${this.path}`);
  }

  /** Whoever waits goes on. */
  thaw(): void {
    run("fsfreeze", "-u", this.path);
  }

  [Symbol.dispose](): void {
    this.thaw();
    run("umount", "--lazy", this.path);
    Deno.removeSync(this.#image);
    Deno.removeSync(this.path);
    Deno.removeSync(this.path.replace(/\/mounted$/, ""));
  }
}
