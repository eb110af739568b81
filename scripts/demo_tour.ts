/**
 * A tour of one daemon, taken with the client library as a program takes it. Each step says why in one line, and which
 * lines of guestctl do the same.
 *
 * @module
 */

import {
  type ChildProcess,
  FetchTransport,
  Guest,
  GuestError,
  Identity,
  type Tunnel,
} from "../src/client/mod.ts";
import { LOG_FILE, ROOT } from "./tethered_daemon.ts";

/** Beside the log, where a demo may leave something. */
const TREE = `${ROOT}.tools/log/demo-tree`;
const COPY = `${ROOT}.tools/log/demo-copy`;
const IDENTITY = `${ROOT}.tools/log/demo-identity`;

const GREETER =
  'for n in 1 2 3; do echo "$GREETING $n"; sleep 0.4; done; echo "and a word on stderr" >&2; exit 7';
const LINES = "for n in 1 2 3 4 5 6; do echo line $n; sleep 0.2; done";
/** What ignores a signal has children that do. */
const STUBBORN = "trap '' TERM; (sh -c 'echo ready; exec sleep 600'; :) & wait";
const SERVER =
  'Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: (at) => console.log(at.port) },' +
  ' () => new Response("hello from a server in the guest"));';

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const say = (text: string): void => console.log(`   ${text}`);

/** A network between client and guest, on a port of its own, whose connections can be cut. */
class Network {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #connections = new Set<Deno.TcpConn>();

  constructor(port: number) {
    void this.#carry(port);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  /** Ends every connection there is, in the middle of whatever it carries. */
  cut(): void {
    for (const connection of this.#connections) connection.close();
    this.#connections.clear();
  }

  async #carry(port: number): Promise<void> {
    for await (const near of this.#listener) {
      const far = await Deno.connect({ hostname: "127.0.0.1", port });
      this.#connections.add(near).add(far);
      // A pipe that breaks is what this is for.
      near.readable.pipeTo(far.writable).catch(() => {});
      far.readable.pipeTo(near.writable).catch(() => {});
    }
  }
}

/** One guest, reached directly and through a network that breaks. */
export class Tour {
  readonly #guest: Guest;
  readonly #distant: Guest;
  readonly #network: Network;
  readonly #identity: Identity = Identity.generate();
  readonly #token: string = crypto.randomUUID();
  readonly #url: string;
  #steps = 0;

  /** Requests end with `leaving`, so that a daemon that has to stop need not wait for them. */
  constructor(port: number, leaving: AbortSignal) {
    this.#url = `http://127.0.0.1:${port}`;
    this.#network = new Network(port);
    const transport = new FetchTransport({
      fetch: (url, init) => {
        const signals = [leaving, ...init?.signal ? [init.signal] : []];
        return fetch(url, { ...init, signal: AbortSignal.any(signals) });
      },
    });
    this.#guest = new Guest(this.#url, { token: this.#token, transport });
    this.#distant = new Guest(this.#network.url, { token: this.#token, transport });
  }

  /** From the first request to the invitation. */
  async take(): Promise<void> {
    console.log(`A daemon serves on ${this.#url}\nIts log: ${LOG_FILE}`);
    await this.#bootstrap();
    await this.#follow();
    await this.#resume();
    await this.#feed();
    await this.#kill();
    await this.#carryTree();
    await this.#reachServer();
    console.log(`
Now yours. In another terminal, in the checkout, all these lines work as they stand, and a shell:

  export GUESTCTL_URL=${this.#url} GUESTCTL_TOKEN=${this.#token} PATH=$PWD/scripts:$PATH
  guestctl shell

Serving until Ctrl-C.`);
  }

  #step(why: string, ...lines: readonly string[]): void {
    console.log(`\n${++this.#steps}. ${why}`);
    for (const line of lines) say(`$ ${line}`);
  }

  async #bootstrap(): Promise<void> {
    this.#step(
      "A new guest refuses all work until its platform brings a token, variables and an identity, once.",
      `guestctl bootstrap -e GREETING=hello --identity ${IDENTITY}`,
    );
    Deno.writeTextFileSync(IDENTITY, JSON.stringify(this.#identity), { mode: 0o600 });
    const env = { GREETING: "hello" };
    await this.#guest.hooks.run({ token: this.#token, env, identity: this.#identity });
    say(`bootstrapped: ${(await this.#guest.health()).bootstrapped}`);
  }

  async #follow(): Promise<void> {
    this.#step(
      "Output comes while the command runs, stdout and stderr apart, and then how it ended.",
      `guestctl run -c '${GREETER}'`,
    );
    const child = await this.#guest.shell(GREETER).spawn();
    const began = performance.now();
    const tell = async (name: "stdout" | "stderr"): Promise<void> => {
      for await (const piece of child[name]) {
        const seconds = ((performance.now() - began) / 1000).toFixed(2);
        say(`${seconds} s  ${name}: ${JSON.stringify(decode(piece))}`);
      }
    };
    await Promise.all([tell("stdout"), tell("stderr")]);
    say(`exit code ${(await child.status).code}`);
  }

  async #resume(): Promise<void> {
    this.#step(
      "A lost connection costs nothing: the stream goes on at the exact byte, on a new one.",
      "guestctl attach --offset 14 resumed",
    );
    const child = await this.#distant.shell(LINES, {
      id: "resumed",
      keep: true,
      onReconnect: (offset) => say(`the connection was cut; a new one asks for byte ${offset}`),
    }).spawn();
    let seen = "";
    for await (const piece of child.stdout) {
      seen += decode(piece);
      say(JSON.stringify(decode(piece)));
      if (seen.endsWith("line 3\n")) this.#network.cut();
    }
    const { stdout } = await this.#guest.poll(child.id);
    if (seen !== stdout) throw new GuestError("Cannot go on: bytes were lost, or came twice");
    say(`${seen.length} bytes, each of them once`);
  }

  async #feed(): Promise<void> {
    this.#step(
      "Bytes for stdin arrive in order, each once; a command that does not read makes its writer wait.",
      "printf 'pear\\napple\\n' | guestctl run -i -- sort",
    );
    const child = await this.#guest.command("sort", { stdin: "piped" }).spawn();
    await new Blob(["pear\napple\n"]).stream().pipeTo(child.stdin);
    say(JSON.stringify(decode((await child.output()).stdout)));
  }

  async #kill(): Promise<void> {
    this.#step(
      "A kill takes the whole process group along, by SIGKILL where SIGTERM does not help.",
      "guestctl ps",
      "guestctl kill stubborn",
    );
    const child = await this.#guest.shell(STUBBORN, { id: "stubborn" }).spawn();
    await firstOutput(child);
    say(
      `${await this.#living(
        child,
      )} processes, a grandchild among them, ignore SIGTERM`,
    );
    await child.kill();
    // That may be answered when SIGKILL was sent; whoever asks again hears when nobody is left.
    await child.kill();
    say(`${await this.#living(child)} are left; it ended by ${(await child.status).signal}`);
  }

  async #living({ id }: ChildProcess): Promise<number | undefined> {
    return (await this.#guest.procs()).find(({ exec_id }) => exec_id === id)?.pids.length;
  }

  async #carryTree(): Promise<void> {
    this.#step(
      "Trees go in whole, modes and links included, and come out again; - is a pipe, of tar.",
      `guestctl cp docs guest:${COPY}`,
      `guestctl cp guest:${TREE} - | tar t`,
    );
    await this.#guest.uploadTree(TREE, [
      { name: "bin/hello", body: "#!/bin/sh\necho hello from a tree\n", mode: 0o755 },
      { name: "hi", type: "symlink", linkname: "bin/hello" },
    ]);
    say(JSON.stringify(decode((await this.#guest.command(`${TREE}/hi`).output()).stdout)));
    for await (const { name, type, size } of this.#guest.downloadTree(TREE)) {
      say(`${name}: ${type}, ${size} bytes`);
    }
  }

  async #reachServer(): Promise<void> {
    const server = await this.#guest.command(`${ROOT}.tools/bin/deno`, {
      args: ["eval", SERVER],
      cwd: "/",
      env: { DENO_DIR: `${ROOT}.tools/deno_dir`, DENO_NO_UPDATE_CHECK: "1" },
      id: "server",
      keep: true,
    }).spawn();
    const port = Number(await firstOutput(server));
    server.detach();
    this.#step(
      "A port that listens on the guest's loopback alone is reached by who proves to be its owner, encrypted.",
      `guestctl forward --identity ${IDENTITY} 8080:${port}`,
    );
    await using tunnel = await this.#guest.connect(port, { identity: this.#identity });
    say(JSON.stringify(await answer(tunnel)));
  }
}

/** What a command writes first. */
async function firstOutput({ stdout }: ChildProcess): Promise<string> {
  const reader = stdout.getReader();
  const { value = new Uint8Array() } = await reader.read();
  reader.releaseLock();
  return decode(value);
}

/** The body that a web server answers through a tunnel. */
async function answer({ readable, writable }: Tunnel): Promise<string> {
  const request = "GET / HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n";
  const writer = writable.getWriter();
  await writer.write(new TextEncoder().encode(request));
  const [, body = ""] = (await new Response(readable).text()).split("\r\n\r\n");
  return body;
}
