/**
 * The tunnel's speed against bare TCP, `ssh -L` and websockify, all in one run: `deno run -A tests/bench/tunnel.ts
 * [rounds] [megabytes]`. The ways take turns within each round; the table shows medians and their ratios to bare TCP.
 * A reference whose program is not installed is left out, and said to be.
 *
 * @module
 */

import { Daemon } from "../support/daemon.ts";
import { type Reference, sshForward, websockify } from "./tunnel_references.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const METRICS = ["rtt", "up", "down"] as const;
type Metric = (typeof METRICS)[number];
type Ports = Readonly<Record<Metric, number>>;

/** A way to the guest's ports: what the measuring caller is told. */
interface Way {
  readonly name: string;
  args(metric: Metric, bytes: number): string[];
}

/** What each metric must reach, as a ratio to bare TCP or, for the identity, to the plain tunnel. */
const GOALS = { rtt: 7, up: 0.45, down: 0.45, identity: 0.5 } as const;

async function build(): Promise<string> {
  const args = ["build", "--release", "--locked", "--quiet", "--example", "tunnel_bench"];
  const target = `${ROOT}native/target`;
  const { success } = await new Deno.Command("cargo", {
    args: [...args, "--manifest-path", `${ROOT}native/Cargo.toml`, "--target-dir", target],
    stdout: "inherit",
    stderr: "inherit",
  }).output();
  if (!success) throw new Error("Cannot build the bench's caller");
  return `${target}/release/examples/tunnel_bench`;
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  for await (const line of stream.pipeThrough(new TextDecoderStream())) return line.trim();
  throw new Error("Cannot start the bench's guest");
}

async function measure(program: string, args: readonly string[]): Promise<number> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: [...args] }).output();
  const decoder = new TextDecoder();
  if (!success) throw new Error(`Cannot measure ${args.join(" ")}: ${decoder.decode(stderr)}`);
  return Number(decoder.decode(stdout));
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

/** A daemon with the identity of the test vectors, whose keys the measuring caller knows. */
async function bootstrapped(daemon: Daemon): Promise<string> {
  const token = "bench";
  const vectors = JSON.parse(
    await Deno.readTextFile(`${ROOT}native/tests/data/noise_vectors.json`),
  );
  const payload = JSON.stringify({
    agent_token: token,
    identity_seed: Uint8Array.fromHex(vectors.vm_seed).toBase64(),
    identity_host_public_key: Uint8Array.fromHex(vectors.host_pub).toBase64(),
  });
  const answer = await daemon.hook("run", { runHookPayload: payload });
  if (answer.status !== 200) throw new Error("Cannot bootstrap the daemon");
  await answer.body?.cancel();
  return token;
}

function tunnel(name: string, daemon: Daemon, token: string, ports: Ports, query = ""): Way {
  return {
    name,
    args: (metric, bytes) => [
      query === "" ? "ws" : "noise",
      metric,
      String(bytes),
      `127.0.0.1:${daemon.port}`,
      `/v1/tcp?port=${ports[metric]}${query}`,
      token,
    ],
  };
}

function table(ways: readonly Way[], results: ReadonlyMap<string, number[]>): boolean {
  const of = (way: string, metric: Metric): number => median(results.get(`${way} ${metric}`) ?? []);
  let met = true;
  console.log(
    `${"".padEnd(16)}${"rtt µs".padStart(18)}${"up MB/s".padStart(18)}${"down MB/s".padStart(18)}`,
  );
  for (const { name } of ways) {
    const cells = METRICS.map((metric) => {
      const value = of(name, metric);
      const ratio = value / of("bare TCP", metric);
      if (name === "guestd") met &&= metric === "rtt" ? ratio <= GOALS.rtt : ratio >= GOALS[metric];
      if (name === "guestd identity" && metric !== "rtt") {
        met &&= value / of("guestd", metric) >= GOALS.identity;
      }
      return `${value.toFixed(1)} (${ratio.toFixed(2)}x)`.padStart(18);
    });
    console.log(name.padEnd(16) + cells.join(""));
  }
  return met;
}

async function main(rounds: number, megabytes: number): Promise<boolean> {
  const program = await build();
  const serving = new Deno.Command(program, { args: ["serve"], stdin: "piped", stdout: "piped" });
  await using cleanup = new AsyncDisposableStack();
  const guest = serving.spawn();
  cleanup.defer(async () => {
    await guest.stdin.close();
    await guest.status;
  });
  const [rtt = 0, up = 0, down = 0] = (await firstLine(guest.stdout)).split(" ").map(Number);
  const ports = { rtt, up, down };
  const daemon = cleanup.use(await Daemon.start());
  const token = await bootstrapped(daemon);
  const ways: Way[] = [
    {
      name: "bare TCP",
      args: (metric, bytes) => ["tcp", metric, String(bytes), `127.0.0.1:${ports[metric]}`],
    },
    tunnel("guestd", daemon, token, ports),
    tunnel("guestd identity", daemon, token, ports, "&identity=1"),
  ];
  for (
    const [name, start, kind] of [["ssh -L", sshForward, "tcp"], [
      "websockify",
      websockify,
      "ws",
    ]] as const
  ) {
    const reference: Reference | string = await start(ports);
    if (typeof reference === "string") {
      console.log(`${name} is left out: ${reference}`);
      continue;
    }
    cleanup.use(reference);
    ways.push({
      name,
      args: (metric, bytes) => [
        kind,
        metric,
        String(bytes),
        `127.0.0.1:${reference.ports[metric]}`,
        ...(kind === "ws" ? ["/", "none"] : []),
      ],
    });
  }
  const results = new Map<string, number[]>();
  for (let round = 0; round < rounds; round++) {
    for (const metric of METRICS) {
      for (const way of ways) {
        const value = await measure(program, way.args(metric, megabytes << 20));
        const key = `${way.name} ${metric}`;
        results.set(key, [...results.get(key) ?? [], value]);
      }
    }
  }
  return table(ways, results);
}

if (import.meta.main) {
  const [rounds = "5", megabytes = "256"] = Deno.args;
  const met = await main(Number(rounds), Number(megabytes));
  console.log(met ? "All goals are met." : "A goal is missed.");
  Deno.exit(met ? 0 : 1);
}
