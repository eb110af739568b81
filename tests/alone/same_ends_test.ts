import { deepStrictEqual } from "node:assert/strict";
import { Daemon } from "../support/daemon.ts";
import { fileUrl } from "../support/files_client.ts";
import { request } from "../support/raw_http.ts";
import { Scratch } from "../support/scratch.ts";

/** How often a caller resets its connection and makes another one from the same port. */
const TIMES = 1500;

/**
 * Deno's sockets have no port of their own choice, and no reset. Sends its last argument, of an upload some of the
 * body, resets within milliseconds, asks for health from the same port, and prints what else it got than that.
 */
const CALLER = `
import base64, random, socket, struct, sys, time
port, times, first = int(sys.argv[1]), int(sys.argv[2]), base64.b64decode(sys.argv[3])
more = [0, 100, 5000, 200000] if b"Length" in first else [0]
def connect(source):
    caller = socket.socket()
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    caller.settimeout(20)
    caller.bind(("127.0.0.1", source))
    caller.connect(("127.0.0.1", port))
    return caller
source, chance = 0, random.Random(7)
for _ in range(times):
    caller = connect(source)
    source = caller.getsockname()[1]
    caller.sendall(first + b"x" * chance.choice(more))
    time.sleep(chance.choice([0, 0.0002, 0.0005, 0.001, 0.003]) * chance.random())
    caller.close()
    caller = connect(source)
    caller.sendall(b"GET /v1/health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
    answer = b""
    try:
        while piece := caller.recv(65536):
            answer += piece
    except ConnectionResetError:
        answer += b" and a reset"
    if not (answer.startswith(b"HTTP/1.1 200") and b'"bootstrapped":true' in answer and answer.endswith(b"}")):
        print(answer[:60])
    caller.close()
`;

for (const what of ["download", "upload", "tunnel"] as const) {
  Deno.test(`what belongs to a connection that was reset does not come to another from the same port: ${what}`, async () => {
    using scratch = new Scratch();
    await using daemon = await Daemon.bootstrapped();
    const path = scratch.join("file");
    Deno.writeFileSync(path, new Uint8Array(600_000));
    const bearer = ["Authorization", `Bearer ${daemon.token}`] as const;
    const firsts = {
      download: request("GET", fileUrl("file", path), [bearer]),
      upload: request("PUT", fileUrl("file", path), [bearer, ["Content-Length", "3000000"]]),
      tunnel: request("GET", "/v1/tcp?port=9", [
        bearer,
        ["Connection", "Upgrade"],
        ["Upgrade", "websocket"],
        ["Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="],
      ]),
    };
    const first = new Uint8Array(firsts[what]).toBase64();
    const { stdout, stderr, code } = await new Deno.Command("python3", {
      args: ["-c", CALLER, String(daemon.port), String(TIMES), first],
    }).output();
    const said = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    deepStrictEqual([code, ...said], [0, "", ""]);
  });
}
