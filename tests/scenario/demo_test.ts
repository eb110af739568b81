import { match, strictEqual } from "node:assert/strict";
import { eventually, within } from "../support/await_event.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** The demo in a process group of its own, and what it has printed so far. */
class Demo implements AsyncDisposable {
  readonly process: Deno.ChildProcess;
  readonly #ended: Promise<void>;
  #said = "";

  constructor() {
    this.process = new Deno.Command(`${ROOT}build.sh`, {
      args: ["demo"],
      detached: true,
      stdin: "null",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#ended = this.#read();
  }

  async #read(): Promise<void> {
    for await (const text of this.process.stdout.pipeThrough(new TextDecoderStream())) {
      this.#said += text;
    }
  }

  /** All that it says until `sign` occurs. */
  async until(sign: RegExp): Promise<string> {
    return await eventually(
      `${sign} in what the demo says`,
      () => sign.test(this.#said) && this.#said,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.process.kill("SIGINT");
    } catch {
      // It has ended already.
    }
    await within("the end of the demo", this.process.status);
    await this.#ended;
  }
}

async function portOf(demo: Demo): Promise<number> {
  return Number(/http:\/\/127\.0\.0\.1:([0-9]+)/.exec(await demo.until(/:[0-9]+\n/))?.[1]);
}

/** Waits until nobody listens on the port. */
async function closed(port: number): Promise<void> {
  await eventually(`the end of the daemon on port ${port}`, async () => {
    try {
      using _connection = await Deno.connect({ hostname: "127.0.0.1", port });
      return false;
    } catch (error) {
      return error instanceof Deno.errors.ConnectionRefused;
    }
  });
}

/** What a step says before the demo goes on, in the order of the tour. */
const STEPS = [
  /bootstrapped: true/,
  /stdout: "hello 3\\n"/,
  /exit code 7/,
  /"line 3\\n"\n {3}the connection was cut; a new one asks for byte 21\n {3}"line 4\\n"/,
  /42 bytes, each of them once/,
  /"apple\\npear\\n"/,
  /3 processes, a grandchild among them, ignore SIGTERM\n {3}0 are left; it ended by SIGKILL/,
  /"hello from a tree\\n"/,
  /bin\/hello: file, 33 bytes\n {3}hi: symlink/,
  /"hello from a server in the guest"/,
];
/** Exit codes of lines that do not end with 0: those of a command that fails, and of a kill that finds nobody. */
const CODES: Readonly<Record<string, number>> = { "guestctl run -c": 7, "guestctl kill": 1 };

Deno.test("the demo shows every step, serves, and leaves nothing behind when interrupted", async (t) => {
  await using demo = new Demo();
  const port = await portOf(demo);
  const said = await demo.until(/Serving until Ctrl-C/);
  for (const step of STEPS) match(said, step);
  const [, exported = ""] = /^ {2}(export .*)$/m.exec(said) ?? [];
  const lines = said.matchAll(/^ {3}\$ (.*)$/gm).map(([, line = ""]) => line).toArray();
  strictEqual(lines.length, 9);
  for (const line of lines) {
    // The one is done once in a guest's life, the other goes on until Ctrl-C.
    if (/^guestctl (bootstrap|forward)/.test(line)) continue;
    const code = Object.entries(CODES).find(([start]) => line.startsWith(start))?.[1] ?? 0;
    await t.step(line, async () => {
      const args = ["-c", `set -o pipefail; ${exported}; ${line}`];
      const ran = new Deno.Command("bash", { args, cwd: ROOT, stderr: "inherit" }).output();
      strictEqual((await within("its end", ran)).code, code);
    });
  }
  demo.process.kill("SIGINT");
  strictEqual((await within("the end of the demo", demo.process.status)).code, 0);
  await closed(port);
});

Deno.test("a demo that is killed with its whole process group leaves no daemon behind", async () => {
  await using demo = new Demo();
  const port = await portOf(demo);
  // Its whole group, as `kill -9 %1` does.
  Deno.kill(-demo.process.pid, "SIGKILL");
  await closed(port);
});
