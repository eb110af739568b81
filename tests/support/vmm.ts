/** The host's end of a guest's vsock, as VMMs have it: a Unix socket that asks which port is meant. */

/** Leads each port to a port of 127.0.0.1, until it is disposed of. */
export class Vmm implements AsyncDisposable {
  readonly #listener: Deno.UnixListener;
  readonly #serving: Promise<void>;
  readonly #connections = new Set<Deno.Conn>();

  readonly #asked = Promise.withResolvers<void>();
  readonly #left = Promise.withResolvers<void>();

  /** Listens at `path`; says `answer` to everybody and hangs up, if there is one, and nothing ever if that is null. */
  constructor(path: string, ports: Readonly<Record<number, number>>, answer?: string | null) {
    this.#listener = Deno.listen({ transport: "unix", path });
    this.#serving = this.#serve(ports, answer);
  }

  /** When somebody waits to whom nothing is said. */
  get asked(): Promise<void> {
    return this.#asked.promise;
  }

  /** When somebody has left to whom nothing was said. */
  get left(): Promise<void> {
    return this.#left.promise;
  }

  async #serve(ports: Readonly<Record<number, number>>, answer?: string | null): Promise<void> {
    const leading: Promise<unknown>[] = [];
    for await (const near of this.#listener) {
      this.#connections.add(near);
      leading.push(this.#lead(near, ports, answer).catch(() => {}));
    }
    await Promise.all(leading);
  }

  async #lead(
    near: Deno.UnixConn,
    ports: Readonly<Record<number, number>>,
    answer?: string | null,
  ): Promise<unknown> {
    let line = "";
    for (const byte = new Uint8Array(1); !line.endsWith("\n");) {
      if (await near.read(byte) === null) return near.close();
      line += String.fromCharCode(...byte);
    }
    if (answer === null) {
      this.#asked.resolve();
      await near.read(new Uint8Array(1)).catch(() => null);
      this.#left.resolve();
      return near.close();
    }
    const wanted = /^CONNECT ([0-9]+)\n$/.exec(line)?.[1] ?? "";
    const port = ports[Number(wanted)];
    const said = answer ?? (port === undefined ? "" : `OK ${1 << 30}\n`);
    const bytes = new TextEncoder().encode(said);
    for (let at = 0; at < bytes.length;) at += await near.write(bytes.subarray(at));
    if (answer !== undefined || port === undefined) return near.close();
    const far = await Deno.connect({ hostname: "127.0.0.1", port });
    this.#connections.add(far);
    return await Promise.allSettled([
      near.readable.pipeTo(far.writable),
      far.readable.pipeTo(near.writable),
    ]);
  }

  /** Ends what is connected, too. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const connection of this.#connections) {
      try {
        connection.close();
      } catch {
        // It has ended already.
      }
    }
    await this.#serving;
  }
}
