/**
 * Asks for health some forty times a second, from a process of its own: the test may be busy. Each time on a new connection, which it tries
 * again to have where there is none.
 */

import type { Daemon } from "./daemon.ts";

/** What came of it. */
interface Probed {
  /** Other answers than 200. */
  readonly failed: number;
  /** Milliseconds until there was an answer, ascending. */
  readonly times: readonly number[];
}

const PROGRAM = `
const port = Number(Deno.args[0]);
const times = [];
let failed = 0;
let going = true;
Deno.stdin.read(new Uint8Array(1)).then(() => going = false);
while (going) {
  const began = performance.now();
  for (let answered = false; !answered && going;) try {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    await connection.write(new TextEncoder().encode("GET /v1/health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n"));
    const text = await new Response(connection.readable).text();
    answered = text !== "";
    if (answered && !text.startsWith("HTTP/1.1 200 ")) failed++;
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  times.push(performance.now() - began);
  await new Promise((resolve) => setTimeout(resolve, 20));
}
console.log(JSON.stringify({ failed, times }));
Deno.exit();
`;

export class Prober implements Disposable {
  readonly #child: Deno.ChildProcess;

  constructor(daemon: Daemon) {
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["eval", PROGRAM, String(daemon.port)],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
  }

  /** Asks no more, and tells. */
  async end(): Promise<Probed> {
    await this.#child.stdin.close();
    const { stdout } = await this.#child.output();
    const { failed, times } = JSON.parse(new TextDecoder().decode(stdout));
    times.sort((a: number, b: number) => a - b);
    return { failed, times };
  }

  [Symbol.dispose](): void {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
}
