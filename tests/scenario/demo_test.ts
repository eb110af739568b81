import { match, strictEqual } from "node:assert/strict";
import { eventually, within } from "../support/await_event.ts";

const BUILD = new URL("../../build.sh", import.meta.url).pathname;

/** The demo in a process group of its own, and what it has printed so far. */
class Demo implements AsyncDisposable {
  readonly process: Deno.ChildProcess;
  readonly #ended: Promise<void>;
  #said = "";

  constructor() {
    this.process = new Deno.Command(BUILD, {
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

Deno.test("the demo shows every step, serves, and leaves nothing behind when interrupted", async () => {
  await using demo = new Demo();
  const port = await portOf(demo);
  const said = await demo.until(/Serving until Ctrl-C/);
  const steps = [
    /run -> 200/,
    /start -> 200/,
    /stdout at 0: "tick 1\\n"/,
    /"exit_code":7/,
    /\n {3}the second line\n/,
    /[0-9]{4,} bytes of tar/,
  ];
  for (const step of steps) match(said, step);
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
