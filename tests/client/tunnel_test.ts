import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert/strict";
import {
  FetchTransport,
  Guest,
  Identity,
  IdentityRefused,
  SocketTransport,
  type Transport,
  TunnelClosed,
} from "../../src/client/mod.ts";
import { within } from "../support/await_event.ts";
import { digest, noise } from "../support/bytes.ts";
import { closedPort } from "../support/closed_port.ts";
import { Daemon } from "../support/daemon.ts";
import { echoed } from "../support/tunnel_echo.ts";
import { Guest as Listener } from "../support/tunnel_guest.ts";

const MIB = 1024 * 1024;
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** A daemon with an identity, a client with its keys, and something that listens behind it. */
async function house(transport: Transport): Promise<
  AsyncDisposable & {
    readonly guest: Guest;
    readonly identity: Identity;
    readonly listener: Listener;
    readonly daemon: Daemon;
  }
> {
  const daemon = await Daemon.start();
  const identity = Identity.generate();
  const guest = new Guest(daemon.url, { token: "t", transport });
  await guest.hooks.run({ token: "t", identity });
  const listener = new Listener();
  return {
    daemon,
    guest,
    listener,
    // As it comes back from where it was stored.
    identity: Identity.from(JSON.parse(JSON.stringify(identity))),
    async [Symbol.asyncDispose](): Promise<void> {
      listener[Symbol.dispose]();
      transport.close();
      await daemon[Symbol.asyncDispose]();
    },
  };
}

for (const Kind of [FetchTransport, SocketTransport]) {
  Deno.test(`${Kind.name}: a tunnel brings every byte both ways, plain, and with both prologues`, async () => {
    await using given = await house(new Kind());
    const { guest, identity, listener } = given;
    void listener.echo();
    const bytes = noise(2 * MIB);
    for (const options of [{}, { identity }, { identity, prologue: "none" }] as const) {
      await using tunnel = await guest.connect(listener.port, options);
      strictEqual(await digest(await echoed(tunnel, bytes)), await digest(bytes));
    }
  });

  Deno.test(`${Kind.name}: the ends of a tunnel`, async () => {
    await using given = await house(new Kind());
    const { guest, identity, listener } = given;
    for (const options of [{}, { identity }]) {
      const tunnel = await guest.connect(listener.port, options);
      using connection = await listener.accept();
      await connection.send("the last words");
      connection.socket.closeWrite();
      strictEqual(await within("the end", new Response(tunnel.readable).text()), "the last words");
      await tunnel[Symbol.asyncDispose]();
    }
    const half = await guest.connect(listener.port, { identity });
    using connection = await listener.accept();
    const writer = half.writable.getWriter();
    await writer.write(new TextEncoder().encode("a question"));
    await writer.close();
    strictEqual(text(await connection.bytes(10)), "a question");
    strictEqual(await connection.ending(), "end");
    await connection.send("an answer");
    connection.socket.closeWrite();
    strictEqual(await within("the end", new Response(half.readable).text()), "an answer");
    strictEqual((await within("the close", half.closed)).code, 1000);
    using closed = await closedPort();
    const nobody = await guest.connect(closed.port);
    const error = await new Response(nobody.readable).text().catch((error) => error);
    ok(error instanceof TunnelClosed, String(error));
    strictEqual(error.code, 4502);
    const broken = await guest.connect(listener.port);
    using reset = await listener.accept();
    // Unread bytes make the kernel reset at the close.
    await broken.writable.getWriter().write(new Uint8Array(10));
    await reset.arrival();
    reset[Symbol.dispose]();
    await broken[Symbol.asyncDispose]();
  });

  Deno.test(`${Kind.name}: a guest with other keys is refused, and nothing is dialled`, async () => {
    await using given = await house(new Kind());
    const { guest, listener } = given;
    await rejects(guest.connect(listener.port, { identity: Identity.generate() }), IdentityRefused);
    strictEqual(listener.dials, 0);
  });

  Deno.test(`${Kind.name}: an abort ends a tunnel without a word`, async () => {
    await using given = await house(new Kind());
    const { guest, listener } = given;
    const controller = new AbortController();
    const tunnel = await guest.connect(listener.port, { signal: controller.signal });
    using connection = await listener.accept();
    controller.abort();
    strictEqual((await within("the end", tunnel.closed)).code, 1006);
    await connection.ending();
  });
}

Deno.test("a refused tunnel says why, where the transport can tell", async () => {
  await using given = await house(new SocketTransport());
  const wrong = new Guest(given.daemon.url, { token: "wrong", transport: new SocketTransport() });
  await rejects(wrong.connect(1), { name: "Unauthorized", status: 401 });
});

Deno.test("commands, streams and files go over a socket of one's own, too", async () => {
  await using given = await house(new SocketTransport());
  const { guest } = given;
  const bytes = noise(3 * MIB);
  const file = Deno.makeTempFileSync();
  try {
    await guest.writeFile(file, new Blob([bytes]).stream(), { size: bytes.length });
    strictEqual(await digest(await (await guest.readFile(file)).bytes()), await digest(bytes));
    const { stdout } = await guest.command("cat", { args: [file] }).output();
    strictEqual(await digest(stdout), await digest(bytes));
    const child = await guest.command("sort", { stdin: "piped" }).spawn();
    await new Blob(["b\na\n"]).stream().pipeTo(child.stdin);
    deepStrictEqual(text((await child.output()).stdout), "a\nb\n");
  } finally {
    Deno.removeSync(file);
  }
});
