/**
 * What the tunnel is compared with: OpenSSH's port forwarding and websockify, each in front of the bench's guest.
 *
 * @module
 */

/** A running reference: for each of the guest's ports the one that leads to it. */
export interface Reference extends AsyncDisposable {
  readonly ports: Readonly<Record<"rtt" | "up" | "down", number>>;
}

type Ports = Reference["ports"];

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

function freePorts(): Ports {
  return { rtt: freePort(), up: freePort(), down: freePort() };
}

async function accepts(port: number): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt++) {
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new Error(`Cannot start a reference: nothing listens on ${port}`);
}

async function exists(program: string): Promise<boolean> {
  const { success } = await new Deno.Command("sh", {
    args: ["-c", `command -v "$0"`, program],
    stdout: "null",
  }).output();
  return success;
}

function killing(children: readonly Deno.ChildProcess[]): AsyncDisposableStack {
  const stack = new AsyncDisposableStack();
  for (const child of children) {
    stack.defer(async () => {
      try {
        child.kill("SIGTERM");
      } catch {
        // It has ended already.
      }
      await child.status;
    });
  }
  return stack;
}

function spawn(program: string, args: readonly string[]): Deno.ChildProcess {
  return new Deno.Command(program, {
    args: [...args],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  })
    .spawn();
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const { success } = await new Deno.Command(program, { args: [...args], stdout: "null" }).output();
  if (!success) throw new Error(`Cannot run ${program}`);
}

/** OpenSSH with its usual cipher, both ends on this machine. A sentence where it cannot be had. */
export async function sshForward(guest: Ports): Promise<Reference | string> {
  const sshd = "/usr/sbin/sshd";
  if (!await exists(sshd) || !await exists("ssh")) {
    return "it needs openssh-server and openssh-client";
  }
  const home = await Deno.makeTempDir({ prefix: "guestd-bench-" });
  const port = freePort();
  for (const key of ["host", "user"]) {
    await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", `${home}/${key}`]);
  }
  await Deno.copyFile(`${home}/user.pub`, `${home}/authorized`);
  await Deno.mkdir("/run/sshd", { recursive: true });
  const config = [
    `ListenAddress 127.0.0.1:${port}`,
    `HostKey ${home}/host`,
    `AuthorizedKeysFile ${home}/authorized`,
    "StrictModes no",
    "PermitRootLogin yes",
    "UsePAM no",
    "PidFile none",
  ];
  await Deno.writeTextFile(`${home}/config`, config.join("\n") + "\n");
  const server = spawn(sshd, ["-D", "-f", `${home}/config`]);
  const stack = killing([server]);
  stack.defer(() => Deno.remove(home, { recursive: true }));
  await accepts(port);
  const ports = freePorts();
  const forwards = (["rtt", "up", "down"] as const).flatMap((metric) => [
    "-L",
    `127.0.0.1:${ports[metric]}:127.0.0.1:${guest[metric]}`,
  ]);
  const options = [
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "IdentitiesOnly=yes",
  ];
  const client = spawn("ssh", [
    "-N",
    ...options.flatMap((option) => ["-o", option]),
    ...["-i", `${home}/user`, "-p", String(port)],
    ...forwards,
    "127.0.0.1",
  ]);
  stack.use(killing([client]));
  for (const forwarded of Object.values(ports)) await accepts(forwarded);
  return { ports, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** websockify from PyPI, on PATH or named by WEBSOCKIFY. A sentence where it cannot be had. */
export async function websockify(guest: Ports): Promise<Reference | string> {
  const program = Deno.env.get("WEBSOCKIFY") ?? "websockify";
  if (!await exists(program)) return "it needs websockify on PATH or in WEBSOCKIFY";
  const ports = freePorts();
  const children = (["rtt", "up", "down"] as const).map((metric) =>
    spawn(program, [`127.0.0.1:${ports[metric]}`, `127.0.0.1:${guest[metric]}`])
  );
  const stack = killing(children);
  for (const port of Object.values(ports)) await accepts(port);
  return { ports, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}
