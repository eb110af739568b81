# faults: makes the daemon's system calls fail, one after the other, and compares what comes of it. As root installs the
# strace that this takes.
source "$root/scripts/build/setup.sh"
source "$root/scripts/build/debian.sh"

ensure_strace() { need_commands "system calls are made to fail by strace" strace:strace; }

command_faults() {
  [ "$(id -u)" -eq 0 ] || die "only root may trace the daemon"
  set_up
  ensure_strace
  exec "$deno" run --quiet --frozen --allow-all tests/faults/main.ts "$@"
}
