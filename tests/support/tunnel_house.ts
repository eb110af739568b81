/** A daemon with an identity, and a guest behind it. */

import { strictEqual } from "node:assert/strict";
import type { BareSocket } from "./bare_socket.ts";
import { Daemon } from "./daemon.ts";
import { type Handshake, portPrologue, READY, type Session } from "../../src/client/noise.ts";
import type { Identity } from "../../src/client/identity.ts";
import { bootstrapIdentity, handshakeOf, NONE } from "./handshake.ts";
import { TunnelClient } from "./tunnel_client.ts";
import { Guest } from "./tunnel_guest.ts";

/** What a client offers. */
export const OFFER = new Uint8Array([1]);
export const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

export class House implements AsyncDisposable {
  readonly daemon: Daemon;
  readonly identity: Identity;
  readonly guest: Guest = new Guest();

  private constructor(daemon: Daemon, identity: Identity) {
    this.daemon = daemon;
    this.identity = identity;
  }

  static async open(): Promise<House> {
    const daemon = await Daemon.start();
    return new House(daemon, await bootstrapIdentity(daemon));
  }

  /** A test that begins with one. */
  static test(name: string, body: (house: House, t: Deno.TestContext) => Promise<void>): void {
    Deno.test(name, async (t) => {
      await using house = await House.open();
      await body(house, t);
    });
  }

  /** An upgraded tunnel whose handshake has not begun. */
  ask(behind: Uint8Array = NONE): Promise<TunnelClient> {
    return TunnelClient.open(this.daemon, `?port=${this.guest.port}&identity=1`, behind);
  }

  /** The client's side of a handshake; see {@link handshakeOf}. */
  handshake(prologue?: Uint8Array, secret?: Uint8Array): Handshake {
    return handshakeOf(this.identity, prologue, secret);
  }

  /** A tunnel behind its handshake. */
  async tunnel(payload: Uint8Array = OFFER, bound = false): Promise<PrivateTunnel> {
    const client = await this.ask();
    const handshake = this.handshake(bound ? portPrologue(this.guest.port) : NONE);
    await client.say(handshake.first(payload));
    const session = handshake.finish(await client.message());
    if (bound) await client.say(session.seal(READY));
    return new PrivateTunnel(client, session, await this.guest.accept());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.guest[Symbol.dispose]();
    await this.daemon[Symbol.asyncDispose]();
  }
}

/** Both ends of a tunnel with an identity. */
export class PrivateTunnel implements Disposable {
  constructor(
    readonly client: TunnelClient,
    readonly session: Session,
    readonly connection: BareSocket,
  ) {}

  /** A few bytes each way. */
  async hello(): Promise<void> {
    await this.client.say(this.session.seal("hello"));
    strictEqual(await this.connection.text(5), "hello");
    await this.connection.send("to you");
    strictEqual(text(this.session.open(await this.client.message())), "to you");
  }

  [Symbol.dispose](): void {
    this.connection[Symbol.dispose]();
    this.client[Symbol.dispose]();
  }
}
