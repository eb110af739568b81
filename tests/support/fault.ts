/** A kernel that refuses or never answers a system call, for one daemon: a seccomp filter around its launcher. */

import { output } from "./command.ts";
import type { Scratch } from "./scratch.ts";

/** What becomes of the call: it fails with EIO, or it waits for ever, as on a file system that hangs. */
export type Fault = "fails" | "hangs";

// A listener that nobody reads leaves every caller waiting, until a signal ends its process. The program keeps the
// listener open across its exec, for closing it would answer them.
const SOURCE = `
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int hangs = argc > 2 && !strcmp(argv[1], "hangs");
  struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statfs, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstatfs, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, hangs ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EIO),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
  if (argc < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 120;
  int flags = hangs ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
  int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (listener < 0) return 121;
  if (hangs) fcntl(listener, F_SETFD, 0);
  execv(argv[2], argv + 2);
  return 122;
}
`;

/** Makes the arguments that a daemon has to be started `through` for `statfs` to go wrong. */
export function faultyStatfs(scratch: Scratch, fault: Fault): string[] {
  const program = scratch.join("fault");
  output("cc", "-o", program, scratch.file("fault.c", SOURCE));
  return [program, fault];
}
