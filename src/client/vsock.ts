/** Where a guest without a network is reached: by its vsock. */

/** A port of a guest's vsock. */
export type VsockAddress =
  & {
    /** The port, of 32 bits. */
    readonly port: number;
  }
  & ({
    /** The Unix socket by which the VMM lets its host connect: Firecracker's, Cloud Hypervisor's, vhost-device-vsock's. */
    readonly path: string;
  } | {
    /** The guest's context id, where the host's kernel has vsock: QEMU's vhost-vsock, crosvm's. */
    readonly cid: number;
  });

/**
 * Reads `vsock-unix:PATH:PORT` and `vsock:CID:PORT`; undefined for any other scheme. Throws a TypeError for one of these
 * that names no such place.
 */
export function vsockAddress(url: string): VsockAddress | undefined {
  if (!/^vsock(-unix)?:/.test(url)) return undefined;
  const form = /^vsock(?:-unix:(.+)|:([0-9]{1,10})):([0-9]{1,10})$/;
  const [, path, cid = "1", digits] = form.exec(url) ?? [];
  const [port, id] = [Number(digits), Number(cid)];
  // The highest of 32 bits stands for any.
  if ([port, id].every((number) => number >= 1 && number < 2 ** 32 - 1)) {
    return path === undefined ? { cid: id, port } : { path, port };
  }
  throw new TypeError(
    `Cannot use ${url}: it has to be vsock-unix:PATH:PORT or vsock:CID:PORT, with numbers from 1 to ${
      2 ** 32 - 2
    }`,
  );
}
