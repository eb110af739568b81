/** A virtual machine that runs the guest image, by the script that anybody would boot it with. */

import { output } from "../support/command.ts";
import { eventually, within } from "../support/await_event.ts";
import { LogLines } from "../support/log_lines.ts";
import { exists } from "../support/source_files.ts";
import { Guest } from "./guest.ts";
import { Qmp } from "./qmp.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

const VHOST = `${ROOT}.tools/vhost-device-vsock/bin/vhost-device-vsock`;

/** From QEMU's start to the daemon's "listening", at most, in milliseconds: emulation on a busy machine is slow. */
const BOOT_MS = 120_000;
/** From the terminate hook to QEMU's end, at most, in milliseconds. */
const POWER_OFF_MS = 30_000;

export type Arch = "amd64" | "arm64";

export interface MachineOptions {
  readonly arch: Arch;
  /** Its disk, which it writes to. */
  readonly disk: string;
  readonly memoryMib?: number;
  /** More words for the kernel's command line. */
  readonly append?: string;
  /** Whether it boots without a link on its network device, until `plugIn`. */
  readonly unplugged?: boolean;
  /** Whether it has a vsock; `only`, if it has no network device beside it. */
  readonly vsock?: "only" | "too";
}

/** A file to which a machine was frozen, and its disk at that moment. */
export interface Frozen {
  readonly options: MachineOptions;
  readonly memory: string;
}

/** A directory for disks and frozen machines, gone at the end. */
export class Shelf implements Disposable {
  readonly path: string;

  constructor() {
    // Not below /tmp, which may be kept in memory: this is gigabytes.
    const dir = `${ROOT}.tools/vm`;
    Deno.mkdirSync(dir, { recursive: true });
    removeLeftOvers(dir);
    this.path = Deno.makeTempDirSync({ dir, prefix: `${Deno.pid}-` });
  }

  /** A new disk: a copy of the image's, or of another machine's. Holes stay holes. */
  disk(name: string, from: Arch | string): string {
    const image = from === "amd64" || from === "arm64";
    const source = image ? `${ROOT}dist/image/${from}/rootfs.ext4` : from;
    const path = `${this.path}/${name}`;
    output("cp", "--sparse=always", source, path);
    return path;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** Shelves of tests that were interrupted: their names begin with the id of a process that is no more. */
function removeLeftOvers(dir: string): void {
  for (const { name } of Deno.readDirSync(dir)) {
    if (!exists(`/proc/${Number.parseInt(name)}`)) {
      Deno.removeSync(`${dir}/${name}`, { recursive: true });
    }
  }
}

/** A running machine. Disposing of it is pulling its plug. */
export class Machine implements AsyncDisposable {
  /** What the guest's console has shown. */
  readonly console: LogLines;
  readonly exited: Promise<Deno.CommandStatus>;
  readonly options: MachineOptions;
  /** A path short enough for a socket, wherever the checkout lies. */
  readonly #socketDir: string;
  readonly #vhost: Deno.ChildProcess | undefined;
  readonly #qemu: Deno.ChildProcess;
  readonly #errors: Promise<string>;
  #qmp: Qmp | undefined;

  private constructor(
    options: MachineOptions,
    more: readonly string[],
    socketDir: string,
    vhost: Deno.ChildProcess | undefined,
  ) {
    this.options = options;
    this.#socketDir = socketDir;
    this.#vhost = vhost;
    const { vsock } = options;
    this.#qemu = new Deno.Command(`${ROOT}image/boot.sh`, {
      args: [options.arch, "-qmp", `unix:${this.#socketDir}/qmp,server=on,wait=off`, ...more],
      env: {
        GUESTD_VM_DISK: options.disk,
        GUESTD_VM_MEMORY: String(options.memoryMib ?? 512),
        GUESTD_VM_APPEND: options.append ?? "",
        GUESTD_VM_PORT: vsock === "only" ? "none" : "0",
        ...(vsock === undefined ? {} : { GUESTD_VM_VSOCK: `${this.#socketDir}/vhost` }),
      },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.exited = this.#qemu.status;
    this.#errors = new Response(this.#qemu.stderr).text();
    this.console = new LogLines(this.#qemu.stdout);
  }

  /** Boots, and waits until the daemon in the guest listens. */
  static async boot(options: MachineOptions): Promise<Machine> {
    const more = options.unplugged === true ? ["-S"] : [];
    return await Machine.#started(options, more, async (machine) => {
      const qmp = await machine.#connect();
      if (options.unplugged === true) {
        await qmp.command("set_link", { name: "net", up: false });
        await qmp.command("cont");
      }
      const listening = machine.console.until(
        "it listen",
        ({ msg }) => msg === "listening",
        BOOT_MS,
      );
      await Promise.race([listening, machine.#died("boot")]);
    });
  }

  /** Goes on where another was frozen, on a copy of its disk. */
  static async restore({ options, memory }: Frozen, disk: string): Promise<Machine> {
    return await Machine.#started({ ...options, disk }, ["-incoming", "defer"], async (machine) => {
      const qmp = await machine.#connect();
      await qmp.restore(memory);
      if (options.vsock === undefined) return;
      // It was pulled out for the freeze.
      const device = { driver: "vhost-user-vsock-pci", id: "vsock", chardev: "vsock" };
      await qmp.command("device_add", { ...device, bus: "vsock-port" });
    });
  }

  static async #started(
    options: MachineOptions,
    more: readonly string[],
    ready: (machine: Machine) => Promise<void>,
  ): Promise<Machine> {
    const socketDir = Deno.makeTempDirSync({ prefix: "guestd-vm-" });
    const vhost = options.vsock && await startVhost(socketDir);
    const machine = new Machine(options, more, socketDir, vhost);
    try {
      await ready(machine);
      return machine;
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #died(doing: string): Promise<never> {
    const { code } = await this.exited;
    throw new Error(
      `Cannot ${doing}: QEMU has ended with ${code}\n${await this.#errors}${this.console}`,
    );
  }

  /** QEMU makes its socket before it starts the guest, but that is an event that it does not announce. */
  async #connect(): Promise<Qmp> {
    const socket = `${this.#socketDir}/qmp`;
    const open = async (): Promise<Qmp | undefined> =>
      await Qmp.open(socket).catch(() => undefined);
    return this.#qmp = await Promise.race([
      eventually("QEMU's socket", open),
      this.#died("connect to QEMU"),
    ]);
  }

  get #open(): Qmp {
    if (this.#qmp === undefined) throw new Error("Cannot command the machine: it is not started");
    return this.#qmp;
  }

  /** Gives the network device of one that booted without it a link. */
  async plugIn(): Promise<void> {
    await this.#open.command("set_link", { name: "net", up: true });
  }

  async guest(token?: string): Promise<Guest> {
    return new Guest(await this.#open.forwardedPort(), token);
  }

  /** The guest by its vsock. */
  vsockGuest(token?: string): Guest {
    return new Guest({ path: this.vsockPath, port: 9000 }, token);
  }

  /** The Unix socket that leads to the guest's vsock. */
  get vsockPath(): string {
    return `${this.#socketDir}/vsock`;
  }

  /** Asks QEMU for a freeze as it is; throws what it says. */
  async migrate(): Promise<void> {
    await this.#open.command("migrate", { uri: "exec:cat >/dev/null" });
  }

  /** Writes the machine's memory to a file and pulls the plug. Its disk stays as it was at that moment. */
  async freeze(): Promise<Frozen> {
    const memory = `${this.options.disk}.memory`;
    if (this.options.vsock !== undefined) await this.#open.unplug("vsock");
    await this.#open.freeze(memory);
    await this[Symbol.asyncDispose]();
    return { options: this.options, memory };
  }

  /** Waits until the guest has powered the machine off by itself; throws when it ended otherwise. */
  async poweredOff(): Promise<void> {
    const { code } = await within("the machine's end", this.exited, POWER_OFF_MS);
    await this.console.ended;
    if (code !== 0 || !/reboot: Power down/.test(this.console.toString())) {
      throw new Error(`Cannot see a power-off: QEMU ended with ${code}\n${this.console}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#qemu.kill("SIGKILL");
    } catch {
      // It has ended already.
    }
    this.#qmp?.[Symbol.dispose]();
    await this.exited;
    await this.#errors;
    await this.console.ended;
    try {
      this.#vhost?.kill("SIGKILL");
    } catch {
      // It has ended with QEMU.
    }
    await this.#vhost?.status;
    await Deno.remove(this.#socketDir, { recursive: true }).catch(() => {});
  }
}

/** Starts the host's end of a vsock, and waits until QEMU can come to it. */
async function startVhost(directory: string): Promise<Deno.ChildProcess> {
  const socket = `${directory}/vhost`;
  const vhost = new Deno.Command(VHOST, {
    args: ["--guest-cid", "3", "--socket", socket, "--uds-path", `${directory}/vsock`],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    await eventually("the socket for the vsock", () => Promise.resolve(exists(socket)));
    return vhost;
  } catch (error) {
    vhost.kill("SIGKILL");
    await vhost.status;
    Deno.removeSync(directory, { recursive: true });
    throw error;
  }
}
