import { deepStrictEqual, notStrictEqual } from "node:assert/strict";
import { Handshake, portPrologue, READY } from "../../src/client/noise.ts";
import { readSource } from "../support/source_files.ts";

/** The value in the page's table whose row begins with `what`. */
function value(what: string): Uint8Array {
  const row = readSource("docs/tunnel.md").split("\n").find((line) => line.startsWith(`| ${what}`));
  return Uint8Array.fromHex(/`([0-9a-f]+)` \|$/.exec(row ?? "")?.[1] ?? `no row: ${what}`);
}

Deno.test("the session that docs/tunnel.md works out is what both ends compute", () => {
  const prologue = portPrologue(8080);
  const handshake = new Handshake({
    secret: value("the client's secret"),
    vmPublicKey: value("the VM's public key"),
    ephemeral: value("the client's ephemeral secret"),
    prologue,
  });
  const first = handshake.first(new Uint8Array([1]));
  const session = handshake.finish(value("**daemon's answer**"));
  const [es, , , ss, , firstKey, ee, , , se, , secondKey] = handshake.secrets;
  notStrictEqual(secondKey, undefined);
  deepStrictEqual(
    {
      prologue: value("prologue"),
      first: value("**client's first message**"),
      secrets: [value("DH `es`"), value("DH `ss`"), value("DH `ee`"), value("DH `se`")],
      payloadKeys: [value("key of the first"), value("key of the second")],
      hash: value("handshake hash"),
      keys: [value("key of what the client"), value("key of what the daemon")],
      sent: [value("client's 0"), value("client's 1")],
      received: ["hello", ""],
    },
    {
      prologue,
      first,
      secrets: [es, ss, ee, se],
      payloadKeys: [firstKey, secondKey],
      hash: session.hash,
      keys: [...session.keys],
      sent: [session.seal(READY), session.seal("GET /")],
      received: [value("daemon's 0"), value("daemon's 1")].map((sealed) =>
        new TextDecoder().decode(session.open(sealed))
      ),
    },
  );
});
