import { deepStrictEqual, rejects, strictEqual, throws } from "node:assert/strict";
import { bodyText, header, headerValues, latin1, RawConnection, request } from "./raw_http.ts";

/** A peer that sends `pieces` one after the other to whoever connects, and closes. */
async function peer(
  pieces: readonly string[],
  test: (connection: RawConnection) => Promise<void>,
): Promise<void> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const served = (async () => {
    using socket = await listener.accept();
    for (const piece of pieces) await socket.write(latin1(piece));
  })();
  {
    using connection = await RawConnection.open(listener.addr.port);
    await test(connection);
  }
  await served;
}

const CHUNKED =
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
const SIZED = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nX: 1\r\nx: 2\r\nY: \xe9\r\n\r\nbody";

Deno.test("answers on one connection are told apart, however they are cut", async () => {
  const wire = CHUNKED + SIZED + CHUNKED;
  for (const cut of [[wire], [...wire], [wire.slice(0, 60), wire.slice(60)]]) {
    await peer(cut, async (connection) => {
      strictEqual(bodyText(await connection.response()), "abcde");
      const sized = await connection.response();
      strictEqual(sized.status, 404);
      strictEqual(bodyText(sized), "body");
      deepStrictEqual(headerValues(sized, "X"), ["1", "2"]);
      throws(() => header(sized, "x"), /there are 2/);
      strictEqual(header(sized, "y"), "\xe9");
      strictEqual(bodyText(await connection.response()), "abcde");
      await connection.closedByPeer();
    });
  }
});

Deno.test("an answer to HEAD has no body whatever its length says", async () => {
  await peer([SIZED.slice(0, -4) + CHUNKED], async (connection) => {
    strictEqual((await connection.response("HEAD")).body.length, 0);
    strictEqual(bodyText(await connection.response()), "abcde");
  });
});

Deno.test("interim answers are passed over and a body without a length ends with the connection", async () => {
  await peer(
    ["HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nall of it"],
    async (connection) => {
      strictEqual(bodyText(await connection.response()), "all of it");
    },
  );
});

Deno.test("a body that is cut short is an error", async () => {
  for (
    const wire of [
      SIZED.slice(0, -1),
      CHUNKED.slice(0, -8),
      CHUNKED.slice(0, -5),
      CHUNKED.slice(0, 20),
    ]
  ) {
    await peer([wire], async (connection) => {
      await rejects(connection.response(), /the peer closed/);
    });
  }
});

Deno.test("what is no HTTP answer is an error", async () => {
  await peer(["SSH-2.0-x\r\n\r\n"], async (connection) => {
    await rejects(connection.response(), /SSH/);
  });
});

Deno.test("bytes before the end are not taken for the end", async () => {
  await peer(["x"], async (connection) => {
    await rejects(connection.closedByPeer(), /1 bytes came/);
  });
});

Deno.test("a request gets Host and Content-Length unless they are given", () => {
  const text = (bytes: Uint8Array): string => new TextDecoder("latin1").decode(bytes);
  strictEqual(text(request("GET", "/a")), "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  strictEqual(
    text(request("POST", "/", [["host", "h"], ["X", "\xe9"]], "ab")),
    "POST / HTTP/1.1\r\nhost: h\r\nX: \xe9\r\nContent-Length: 2\r\n\r\nab",
  );
  strictEqual(
    text(request("PUT", "/", [["Host", "h"], ["content-length", "9"]], "ab")),
    "PUT / HTTP/1.1\r\nHost: h\r\ncontent-length: 9\r\n\r\nab",
  );
});
