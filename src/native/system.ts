import type { Core } from "./core.ts";
import { checked } from "./status.ts";

/** Live pids of every exec's group, by the exec's handle. Throws `NativeError`. */
export async function liveMembers(core: Core): Promise<Map<number, number[]>> {
  let used = 0;
  const { status, value } = await core.operation((token) => {
    used = token;
    return core.symbols.guestd_members(token);
  });
  checked("read the process table", -Math.abs(status));
  const list = new Uint8Array(value);
  checked("read the process table", core.symbols.guestd_members_take(used, list, list.length));
  const view = new DataView(list.buffer);
  const members = new Map<number, number[]>();
  for (let at = 0; at < value; at += 8) {
    const exec = view.getUint32(at, true);
    const pids = members.get(exec);
    const pid = view.getUint32(at + 4, true);
    if (pids === undefined) members.set(exec, [pid]);
    else pids.push(pid);
  }
  return members;
}

/**
 * Bytes available to an unprivileged writer on the file system of `path`, measured on its nearest
 * ancestor that exists. Takes as long as that file system does. Throws `NativeError`.
 */
export async function diskAvailable(core: Core, path: string): Promise<number> {
  const name = new TextEncoder().encode(path);
  const { status, value } = await core.operation((token) =>
    core.symbols.guestd_disk_available(name, name.length, token)
  );
  checked(`measure the free space of ${path}`, -Math.abs(status));
  return value;
}
