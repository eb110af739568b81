/** A memory cgroup of either version, where one can be made. */
export class MemoryCgroup implements Disposable {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  /** One for at most so many bytes, or undefined where the kernel or its owner has none to give. */
  static make(bytes: number): MemoryCgroup | undefined {
    const name = `guestd-${crypto.randomUUID()}`;
    const versions = [
      ["/sys/fs/cgroup/memory", "memory.limit_in_bytes"],
      ["/sys/fs/cgroup", "memory.max"],
    ] as const;
    for (const [root, limit] of versions) {
      const path = `${root}/${name}`;
      try {
        Deno.mkdirSync(path);
      } catch {
        continue;
      }
      const made = new MemoryCgroup(path);
      try {
        Deno.writeTextFileSync(`${path}/${limit}`, String(bytes));
        return made;
      } catch {
        // Memory is not among what this hierarchy controls.
        made[Symbol.dispose]();
      }
    }
    return undefined;
  }

  /** What a command is started through to be in it. */
  get through(): readonly string[] {
    return ["sh", "-c", `echo $$ >${this.#path}/cgroup.procs && exec "$@"`, "sh"];
  }

  /** Removes it, which nobody may be in any more. */
  [Symbol.dispose](): void {
    Deno.removeSync(this.#path);
  }
}
