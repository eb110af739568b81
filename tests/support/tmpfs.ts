/** A small file system of a test's own: the way to a disk that is really full. */

/** What is mounted on a directory of its own, unmounted and removed at the end of the block. */
export class Mounted implements Disposable {
  /** Absolute path of the mount point. */
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  join(name: string): string {
    return `${this.path}/${name}`;
  }

  [Symbol.dispose](): void {
    run("umount", "--lazy", this.path);
    Deno.removeSync(this.path);
  }
}

/** A file system in memory. */
export class Tmpfs extends Mounted {
  /** Mounts one of `bytes`; undefined where that is not permitted. */
  static mount(bytes: number): Tmpfs | undefined {
    const path = Deno.makeTempDirSync({ prefix: "guestd-tmpfs-" });
    if (run("mount", "-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", path)) return new Tmpfs(path);
    Deno.removeSync(path);
    return undefined;
  }

  /** Mounts one entry over another until the end of the block. */
  bind(source: string, target: string): Disposable {
    return this.bindOver(source, this.join(target));
  }

  /** Mounts an entry over a path anywhere until the end of the block. */
  bindOver(source: string, over: string): Disposable {
    if (!run("mount", "--bind", this.join(source), over)) {
      throw new Error(`Cannot mount over ${over}`);
    }
    return { [Symbol.dispose]: () => void run("umount", over) };
  }

  /** Nothing can be written from now on. */
  remountReadOnly(): void {
    if (!run("mount", "-o", "remount,ro", this.path)) {
      throw new Error(`Cannot remount ${this.path}`);
    }
  }
}

/** Runs a command; true if it ended well. */
export function run(command: string, ...args: string[]): boolean {
  try {
    return new Deno.Command(command, { args, stderr: "null" }).outputSync().success;
  } catch {
    return false;
  }
}
