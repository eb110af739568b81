# bench and soak: the native load driver against a daemon of this checkout, which it starts itself.
# shellcheck source=scripts/build/setup.sh
source "$root/scripts/build/setup.sh"

driver=$root/target/release/guestd-bench

build_driver() {
  ensure_cargo
  "$cargo" build --release --locked --quiet --manifest-path tests/bench/Cargo.toml --target-dir target >&2 ||
    die "the load driver did not build"
}

# OpenSSH is what the daemon is compared with; without it its columns stay empty.
ensure_openssh() {
  if [ -x /usr/sbin/sshd ] && [ -x /usr/bin/ssh ]; then return; fi
  if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    say "OpenSSH is not installed, and only root can install it with apt-get: it is not compared"
    return
  fi
  say "installing Debian's openssh-server and openssh-client, to compare with"
  quietly "$tools/log/apt.log" apt-get install -y --no-install-recommends openssh-server openssh-client ||
    say "OpenSSH could not be installed: it is not compared"
}

# So is the tunnel with websockify.
ensure_websockify() {
  if command -v websockify >/dev/null; then return; fi
  if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    say "websockify is not installed, and only root can install it with apt-get: it is not compared"
    return
  fi
  say "installing Debian's websockify, to compare with"
  quietly "$tools/log/apt.log" apt-get install -y --no-install-recommends websockify ||
    say "websockify could not be installed: it is not compared"
}

command_bench() {
  set_up
  build_driver
  ensure_openssh
  if [[ " $* " = *" --only tunnel "* ]]; then ensure_websockify; fi
  exec "$driver" bench "$root" "$@"
}

command_soak() {
  set_up
  build_driver
  exec "$driver" soak "$root" "$@"
}
