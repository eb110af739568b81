/** What is made to fail: which call of which thread in which part of the scenario, and with which errors. */

import type { Part } from "./parts.ts";
import type { Seen } from "./strace.ts";

/** One failure to be injected: the `nth` call of that name that the thread makes in that part. */
export interface Injection {
  readonly part: Part;
  /** A thread's name, cut by the kernel to 15 characters, `main`, or `child` for what is cloned up to its exec. */
  readonly thread: string;
  readonly call: string;
  readonly errno: string;
  readonly nth: number;
}

/** What the manual says that a call of the core can fail with. What is not here cannot fail, or not without harm: close, futex. */
const ERRNOS: Readonly<Record<string, string>> = {
  accept4: "EMFILE ENFILE",
  chdir: "EIO EACCES ENOMEM",
  clone: "EAGAIN ENOMEM EPERM",
  clone3: "EAGAIN ENOMEM",
  close_range: "ENOMEM",
  connect: "ENOMEM",
  dup3: "EBUSY EMFILE",
  epoll_ctl: "ENOMEM ENOSPC",
  epoll_pwait: "EINTR",
  execve: "EACCES EAGAIN EIO ENOMEM E2BIG",
  fallocate: "EIO EINTR ENOSPC EOPNOTSUPP",
  fchmod: "EIO EPERM EROFS",
  fchown: "EIO EPERM EROFS EDQUOT",
  fcntl: "EPERM EMFILE ENOMEM",
  fstat: "EIO ENOMEM",
  fstatfs: "EIO EINTR ENOSYS",
  ftruncate: "EIO EINTR",
  getdents64: "EIO ENOMEM",
  getpeername: "ENOBUFS",
  getsockname: "ENOBUFS",
  getsockopt: "ENOMEM",
  ioctl: "ENOMEM",
  kill: "EPERM ESRCH",
  linkat: "EIO EACCES EDQUOT EMLINK ENOMEM ENOSPC EPERM EROFS",
  madvise: "EAGAIN ENOMEM",
  mkdirat: "EIO EACCES EDQUOT EMLINK ENOMEM ENOSPC EROFS",
  mlock2: "EAGAIN ENOMEM EPERM",
  mmap: "ENOMEM",
  mremap: "ENOMEM",
  newfstatat: "EIO EACCES ENOMEM",
  open: "EIO EACCES EDQUOT EINTR EMFILE ENFILE ENOMEM ENOSPC EROFS",
  openat: "EIO EACCES EDQUOT EINTR EMFILE ENFILE ENOMEM ENOSPC EROFS",
  openat2: "EIO EACCES EAGAIN EDQUOT EINTR EMFILE ENFILE ENOMEM ENOSPC EROFS",
  pidfd_open: "EMFILE ENFILE ENOMEM ESRCH",
  pipe2: "EMFILE ENFILE",
  pread64: "EIO EINTR",
  pwrite64: "EIO EDQUOT EFBIG EINTR ENOSPC",
  read: "EIO EAGAIN EINTR",
  readlinkat: "EIO ENOMEM",
  renameat: "EIO EACCES EBUSY EDQUOT ENOMEM ENOSPC EROFS",
  setgroups: "ENOMEM EPERM",
  setresgid: "EPERM",
  setresuid: "EAGAIN EPERM",
  setsid: "EPERM",
  setsockopt: "ENOMEM",
  statfs: "EIO EACCES EINTR ENOMEM",
  statx: "EIO EACCES ENOMEM",
  symlinkat: "EIO EACCES EDQUOT ENOMEM ENOSPC EROFS",
  unlinkat: "EIO EACCES EBUSY EROFS",
  utimensat: "EIO EPERM EROFS",
  waitid: "ECHILD EINTR",
  write: "EIO EAGAIN EDQUOT EFBIG EINTR ENOSPC",
};

/** Calls of the main thread that are the core's and not Deno's. */
const OF_CORE_ON_MAIN = new Set(["madvise", "mlock2", "pread64", "waitid"]);

/** Calls that the child makes, between its clone and its exec. */
export const CHILD_CALLS = ["setsid", "fcntl", "dup3", "close_range", "setgroups", "setresgid", "setresuid", "chdir", "execve"];

/** An eventfd takes all that is ever written to it: an error there would be nobody's. */
export function isPossible({ name, file }: Seen): boolean {
  return !(name === "write" && file.includes("eventfd"));
}

/** Numbers from 0 to 1, the same ones for the same seed. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** All that can be made to fail of what a part was seen to call: the first three of each kind, and one that is drawn. */
export function injections(
  part: Part,
  seen: readonly Seen[],
  threadOf: (tid: number) => string | undefined,
  draw: () => number,
): Injection[] {
  const calls = Map.groupBy(seen, ({ tid, name }) => `${threadOf(tid)} ${name} ${tid}`);
  const most = new Map<string, number[]>();
  for (const [key, made] of calls) {
    const [thread = "", call = ""] = key.split(" ");
    if (thread === "undefined" || !(call in ERRNOS)) continue;
    if (thread === "main" && !OF_CORE_ON_MAIN.has(call)) continue;
    const places = made.flatMap((one, at) => (isPossible(one) ? [at + 1] : []));
    const kind = `${thread} ${call}`;
    if (places.length > (most.get(kind)?.length ?? 0)) most.set(kind, places);
  }
  return [...most].flatMap(([kind, places]) => {
    const [thread = "", call = ""] = kind.split(" ");
    const later = places[3 + Math.floor(draw() * (places.length - 3))];
    const nths = [...places.slice(0, 3), ...later === undefined ? [] : [later]];
    return (ERRNOS[call] ?? "").split(" ").flatMap((errno) =>
      nths.map((nth) => ({ part, thread, call, errno, nth }))
    );
  });
}

/** What can fail in a child, which is traced from its clone on. */
export function childInjections(part: Part): Injection[] {
  return CHILD_CALLS.flatMap((call) =>
    (ERRNOS[call] ?? "").split(" ").map((errno) => ({ part, thread: "child", call, errno, nth: 1 }))
  );
}
