# Finds a cargo that works. Afterwards "$cargo" is it.

oldest_rust=85 # 1.85 was the first with edition 2024

# cargo_works CARGO: it runs and is new enough. rustup's shim runs only where it finds a default toolchain,
# so being on PATH does not say much.
cargo_works() {
  local version
  version=$("$1" --version 2>/dev/null) || return 1
  [[ $version =~ ^cargo\ 1\.([0-9]+)\. ]] && [ "${BASH_REMATCH[1]}" -ge "$oldest_rust" ]
}

# The home directory that the passwd file names, whatever HOME says.
passwd_home() { getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6 || true; }

# use_cargo CARGO: its directory goes on PATH, since cargo looks for rustc there.
use_cargo() {
  PATH=$(dirname "$1"):$PATH
  cargo=$1
}

find_cargo() {
  local candidate home
  home=$(passwd_home)
  while read -r candidate; do
    if cargo_works "$candidate"; then use_cargo "$candidate"; return; fi
  done < <(type -aP cargo)
  for candidate in $(type -aP cargo) "$home/.cargo/bin/cargo"; do
    if RUSTUP_HOME=$home/.rustup cargo_works "$candidate"; then
      export RUSTUP_HOME=$home/.rustup
      use_cargo "$candidate"
      return
    fi
  done
  for candidate in "$home"/.rustup/toolchains/*/bin/cargo /usr/lib/rust-*/bin/cargo /opt/rust*/bin/cargo; do
    if cargo_works "$candidate"; then use_cargo "$candidate"; return; fi
  done
  die "a working cargo is needed, Rust 1.$oldest_rust or later: install Rust, or put its cargo on PATH"
}

ensure_cargo() {
  find_cargo
  # cargo keeps its registry in ~/.cargo. Without one that can be written it keeps it in the checkout, with the
  # user's own registry settings if there are any.
  [ -z "${CARGO_HOME:-}" ] || return 0
  [ ! -w "${HOME:-/nonexistent}/.cargo" ] || return 0
  export CARGO_HOME=$tools/cargo
  mkdir -p "$CARGO_HOME"
  local home file
  for home in "${HOME:-/nonexistent}" "$(passwd_home)"; do
    for file in config.toml config credentials.toml; do
      if [ -r "$home/.cargo/$file" ] && [ ! -e "$CARGO_HOME/$file" ]; then
        ln -s "$home/.cargo/$file" "$CARGO_HOME/$file"
      fi
    done
  done
}
