import type { Core } from "./core.ts";
import { checked } from "./errno.ts";

/** Room for so many pairs of an exec's handle and a pid at first. */
const FIRST_PAIRS = 512;

/** Live pids of every exec's group, by the exec's handle. Throws `NativeError`. */
export async function liveMembers(core: Core): Promise<Map<number, number[]>> {
  let list = new Uint32Array(2 * FIRST_PAIRS);
  for (;;) {
    const lent = new Uint8Array(list.buffer);
    const { status, value } = await core.wake.operation((token) =>
      core.symbols.guestd_members(lent, lent.length, token)
    );
    checked("read the process table", -Math.abs(status));
    if (value <= lent.length) return byExec(list.subarray(0, value / 4));
    // There may be more by then.
    list = new Uint32Array(value / 2);
  }
}

function byExec(pairs: Uint32Array): Map<number, number[]> {
  const members = new Map<number, number[]>();
  for (let at = 0; at < pairs.length; at += 2) {
    const [exec = 0, pid = 0] = pairs.subarray(at, at + 2);
    const pids = members.get(exec);
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
  const { status, value } = await core.wake.operation((token) =>
    core.symbols.guestd_disk_available(name, name.length, token)
  );
  checked(`measure the free space of ${path}`, -Math.abs(status));
  return value;
}
