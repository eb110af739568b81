/**
 * A port that is closed, and stays so: one that was merely free a moment ago may be another test's by now.
 *
 * @module
 */

/** A client's own port on 127.0.0.1: nobody listens there, and nobody is given it before the end of the block. */
export async function closedPort(): Promise<Disposable & { readonly port: number }> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const client = await Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port });
  return {
    port: client.localAddr.port,
    [Symbol.dispose](): void {
      client.close();
      listener.close();
    },
  };
}
