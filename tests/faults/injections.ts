/** What is made to fail: which call of which thread in which part of the scenario, and with which errno. */

import type { Part } from "./scenario.ts";
import type { Seen } from "./strace.ts";

export interface Injection {
  /** `start` is a daemon's own start up to its bootstrap. */
  readonly part: Part | "start";
  /** A thread's name as the kernel cuts it, `main`, or `child` for what is cloned up to its exec. */
  readonly thread: string;
  readonly call: string;
  readonly errno: string;
  /** Which of that thread's calls of this name in that part, from 1. */
  readonly nth: number;
}

/** What the manual lets calls of the core fail with. Others cannot fail (futex, timerfd_settime), or do what they did all the same (close). */
const ERRNOS: readonly (readonly [calls: string, errnos: string])[] = [
  ["open openat openat2", "EIO EACCES EDQUOT EINTR EMFILE ENFILE ENOMEM ENOSPC EROFS"],
  ["linkat mkdirat symlinkat renameat unlinkat", "EIO EACCES EDQUOT ENOMEM ENOSPC EROFS"],
  ["fchmod fchown utimensat", "EIO EDQUOT EPERM EROFS"],
  ["newfstatat statx statfs readlinkat", "EIO EACCES EINTR ENOMEM"],
  ["fstat fstatfs getdents64", "EIO EINTR ENOMEM"],
  ["read pread64", "EIO EAGAIN EINTR ENOMEM"],
  ["write pwrite64", "EIO EAGAIN EDQUOT EFBIG EINTR ENOSPC"],
  ["fallocate ftruncate", "EIO EINTR ENOSPC EOPNOTSUPP"],
  ["pipe2 pidfd_open eventfd2 timerfd_create epoll_create1", "EMFILE ENFILE ENOMEM"],
  ["epoll_ctl", "ENOMEM ENOSPC"],
  ["epoll_pwait", "EINTR"],
  ["clone clone3", "EAGAIN ENOMEM EPERM"],
  ["mmap mprotect mremap", "ENOMEM"],
  ["fcntl", "EMFILE ENOMEM EPERM"],
  ["kill", "EPERM ESRCH"],
  ["waitid", "ECHILD EINTR"],
  ["getpeername getsockname getsockopt setsockopt ioctl connect shutdown", "ENOBUFS ENOMEM"],
  ["execve", "E2BIG EACCES EAGAIN EIO ENOMEM"],
  ["chdir dup3 close_range", "EBUSY EIO EMFILE ENOMEM"],
  ["setsid setgroups setresgid setresuid prlimit64 prctl", "EAGAIN ENOMEM EPERM"],
];
const ERRNOS_OF = new Map(
  ERRNOS.flatMap(([calls, errnos]) => calls.split(" ").map((call) => [call, errnos.split(" ")])),
);

/** What Deno's main thread calls for the core alone; the other threads that are traced are the core's. */
const OF_CORE_ON_MAIN = ["pread64"];
/** What the core calls while it is opened, and what Deno calls of the same. */
export const AT_START = [
  "clone3",
  "epoll_create1",
  "eventfd2",
  "timerfd_create",
  "prctl",
  "prlimit64",
];
/** What a child calls before its exec, and nobody else. */
const IN_CHILD = [
  "setsid",
  "dup3",
  "close_range",
  "prlimit64",
  "setgroups",
  "setresgid",
  "setresuid",
  "chdir",
  "execve",
];

/**
 * Whether the kernel may refuse it: an eventfd takes all that is written to it, a child that has ended can be reaped,
 * and what is watched already can be watched otherwise.
 */
export function isPossible({ name, line }: Seen): boolean {
  if (name === "write") return !line.includes("eventfd");
  if (name === "waitid") return line.includes("WNOWAIT");
  return name !== "epoll_ctl" || line.includes("EPOLL_CTL_ADD");
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

/** By thread and call: which of the calls can fail, of whichever thread of that name made most. */
export type Places = ReadonlyMap<string, readonly number[]>;

export function placesOf(seen: readonly Seen[], threads: ReadonlyMap<number, string>): Places {
  const places = new Map<string, readonly number[]>();
  for (const made of Map.groupBy(seen, ({ tid, name }) => `${tid} ${name}`).values()) {
    const { tid, name } = made[0] as Seen;
    const thread = threads.get(tid);
    if (thread === undefined) continue;
    if (thread === "main" && !OF_CORE_ON_MAIN.includes(name) && !AT_START.includes(name)) continue;
    const key = `${thread} ${name}`;
    const here = made.flatMap((one, at) => (isPossible(one) ? [at + 1] : []));
    if (here.length > (places.get(key)?.length ?? 0)) places.set(key, here);
  }
  return places;
}

/**
 * With each errno the first three of each call that was made both times, and one more that is drawn: all at a start,
 * where Deno's are among them, and of the spool, which takes seconds, the first and one more of those that spool.
 */
export function injections(
  part: Injection["part"],
  once: Places,
  again: Places,
  draw: () => number,
): Injection[] {
  const all = [...once].flatMap(([key, places]) => {
    const [thread = "", call = ""] = key.split(" ");
    if (part === "spool" && !/main|spooler/.test(thread)) return [];
    const both = places.slice(0, again.get(key)?.length ?? 0);
    const first = { start: both.length, spool: 1 }[part as string] ?? 3;
    return (ERRNOS_OF.get(call) ?? []).flatMap((errno) => {
      const later = both[first + Math.floor(draw() * (both.length - first))];
      const nths = [...both.slice(0, first), ...later === undefined ? [] : [later]];
      return nths.map((nth) => ({ part, thread, call, errno, nth }));
    });
  });
  const inChild = part !== "command"
    ? []
    : IN_CHILD.flatMap((call) =>
      (ERRNOS_OF.get(call) ?? []).map((errno) => ({ part, thread: "child", call, errno, nth: 1 }))
    );
  return [...all, ...inChild];
}
