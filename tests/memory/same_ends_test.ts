import { deepStrictEqual } from "node:assert/strict";
import { Daemon } from "../support/daemon.ts";
import { fileUrl } from "../support/files_client.ts";
import { sized } from "../support/raw_http.ts";
import { Scratch } from "../support/scratch.ts";
import { UPGRADE } from "../support/tunnel_client.ts";

/** How many clients reset their connections at once, and how often each does. */
const CLIENTS = 40;
const ROUNDS = 15;

/**
 * Deno's sockets have no port of their own choice, and no reset. Each client sends the last argument and up to 200 KB
 * behind it, resets within milliseconds, asks for health from the same port, and prints what else it got than that.
 */
const CLIENT = `
import base64, random, socket, struct, sys, threading, time
port, clients, rounds, first = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), base64.b64decode(sys.argv[4])
def connect(source):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.settimeout(20)
    client.bind(("127.0.0.1", source))
    client.connect(("127.0.0.1", port))
    return client
def run(number):
    source, chance = 0, random.Random(number)
    for _ in range(rounds):
        client = connect(source)
        source = client.getsockname()[1]
        try:
            client.sendall(first + b"x" * chance.choice([0, 100, 5000, 200000]))
        except ConnectionError:
            pass
        time.sleep(chance.choice([0, 0.0002, 0.0005, 0.001, 0.003]) * chance.random())
        client.close()
        client = connect(source)
        client.sendall(b"GET /v1/health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
        answer = b""
        try:
            while piece := client.recv(65536):
                answer += piece
        except ConnectionResetError:
            answer += b" and a reset"
        if not (answer.startswith(b"HTTP/1.1 200") and b'"bootstrapped":true' in answer and answer.endswith(b"}")):
            print(answer[:60])
        client.close()
threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
for thread in threads: thread.start()
for thread in threads: thread.join()
`;

for (const what of ["file", "tree", "upload", "tunnel"] as const) {
  Deno.test(`what belongs to a connection that was reset does not come to another from the same port: ${what}`, async () => {
    using scratch = new Scratch();
    await using daemon = await Daemon.bootstrapped();
    Deno.writeFileSync(scratch.join("file"), new Uint8Array(600_000));
    const path = scratch.join("file");
    const firsts = {
      file: daemon.request("GET", fileUrl("file", path)),
      tree: daemon.request("GET", fileUrl("tar", scratch.path)),
      upload: daemon.request("PUT", fileUrl("file", path), [sized(3_000_000)]),
      tunnel: daemon.request("GET", "/v1/tcp?port=9", UPGRADE),
    };
    const first = new Uint8Array(firsts[what]).toBase64();
    const { stdout, stderr, code } = await new Deno.Command("python3", {
      args: ["-c", CLIENT, String(daemon.port), String(CLIENTS), String(ROUNDS), first],
    }).output();
    const said = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    deepStrictEqual([code, ...said], [0, "", ""]);
  });
}
