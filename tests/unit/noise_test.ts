import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { Handshake, READY } from "../../src/client/noise.ts";

interface Case {
  readonly prologue: string;
  readonly payload: string;
  readonly msg1: string;
  readonly msg2: string;
  readonly handshake_hash: string;
  readonly [message: `${string}(${string})`]: string;
}

const vectors = JSON.parse(
  Deno.readTextFileSync(new URL("../../native/tests/data/noise_vectors.json", import.meta.url)),
) as { readonly [key: string]: string } & { readonly cases: readonly Case[] };

const hex = (text: string | undefined): Uint8Array => Uint8Array.fromHex(text ?? "missing");

Deno.test("the client's Noise speaks what the vectors say", () => {
  strictEqual(vectors.cases.length, 3);
  for (const { prologue, payload, msg1, msg2, handshake_hash, ...messages } of vectors.cases) {
    const handshake = new Handshake({
      secret: hex(vectors["host_seed"]),
      vmPublicKey: hex(vectors["vm_pub"]),
      ephemeral: hex(vectors["eph_i"]),
      prologue: hex(prologue),
    });
    strictEqual(handshake.first(hex(payload)).toHex(), msg1);
    const session = handshake.finish(hex(msg2));
    strictEqual(session.payload.toHex(), payload);
    strictEqual(session.hash.toHex(), handshake_hash);
    strictEqual(session.seal(READY).toHex(), messages["i2r_0(microvms-tunnel-ready)"]);
    strictEqual(new TextDecoder().decode(session.open(hex(messages["r2i_0(hello)"]))), "hello");
    deepStrictEqual(session.open(hex(messages["r2i_1(empty=end of stream)"])), new Uint8Array(0));
  }
});
