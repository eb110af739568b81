/** A directory of a test's own. */

/** A new empty directory, removed with all it holds at the end of the block. */
export class Scratch implements Disposable {
  readonly path: string;

  /** Makes it; everybody may enter it and write to it. */
  constructor() {
    this.path = Deno.makeTempDirSync({ prefix: "guestd-test-" });
    Deno.chmodSync(this.path, 0o777);
  }

  join(name: string): string {
    return `${this.path}/${name}`;
  }

  has(name: string): boolean {
    return [...Deno.readDirSync(this.path)].some((entry) => entry.name === name);
  }

  /** Writes a file and gives its path. */
  file(name: string, content: string | Uint8Array, mode = 0o644): string {
    const path = this.join(name);
    if (typeof content === "string") Deno.writeTextFileSync(path, content);
    else Deno.writeFileSync(path, content);
    Deno.chmodSync(path, mode);
    return path;
  }

  [Symbol.dispose](): void {
    // Whoever is not root cannot empty a directory that a test made unwritable.
    if (Deno.uid() !== 0) {
      new Deno.Command("chmod", { args: ["-R", "u+rwX", this.path], stderr: "null" }).outputSync();
    }
    Deno.removeSync(this.path, { recursive: true });
  }
}
