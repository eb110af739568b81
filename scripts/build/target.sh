# The daemon's parts for the architecture of a guest: deno, native library, compiled file.
# Needs setup.sh and debian.sh.

# What Rust and Python call an architecture.
rust_target() { case $1 in amd64) echo x86_64-unknown-linux-gnu ;; arm64) echo aarch64-unknown-linux-gnu ;; esac; }
wheel_arch() { case $1 in amd64) echo x86_64 ;; arm64) echo aarch64 ;; esac; }

# The processor that an ELF file is for, in Debian's words; nothing for any other file.
elf_arch() {
  case $(od -An -tx1 -j0 -N20 "$1" 2>/dev/null | tr -d ' \n') in
    7f454c46*3e00) echo amd64 ;;
    7f454c46*b700) echo arm64 ;;
  esac
}

# elf_is_whole FILE: its table of sections, which is the last of an ELF file, lies within it.
elf_is_whole() {
  local at size count
  at=$(od -An -tu8 -j40 -N8 "$1") size=$(od -An -tu2 -j58 -N2 "$1") count=$(od -An -tu2 -j60 -N2 "$1")
  [ -n "$count" ] && [ "$(wc -c <"$1")" -ge $((at + size * count)) ]
}

# own_arch ARCH: whether it is this machine's.
own_arch() { [ "$1" = "$(host_arch)" ]; }

# Where each part lies: this machine's own in dist/, another architecture's in dist/ARCH/.
parts() { if own_arch "$1"; then echo "$root/dist"; else echo "$root/dist/$1"; fi; }
library_for() { echo "$(parts "$1")/libguestd.so"; }
compiled_file() { echo "$(parts "$1")/guestd"; }

# Deno for a guest: this machine's where it is the very program that PyPI has, and not a script in its place, another
# release or one for another C library; else PyPI's own.
deno_for() {
  local own
  own=$(readlink -f "$deno")
  if own_arch "$1" && ships "$own" "$1"; then echo "$own"; else echo "$tools/deno-$1-$deno_version/deno"; fi
}

ships() {
  [ "$(elf_arch "$1")" = "$2" ] && [[ $(NO_COLOR=1 "$1" --version) == "deno $deno_version "* ]] &&
    grep -qaE '/ld-linux-(x86-64\.so\.2|aarch64\.so\.1)' < <(head -c 4096 "$1")
}

# rustc_works RUSTC: it runs and is new enough; Debian's stable one often is not.
rustc_works() {
  [[ $("$1" --version 2>/dev/null) =~ ^rustc\ 1\.([0-9]+)\. ]] && [ "${BASH_REMATCH[1]}" -ge "$oldest_rust" ]
}

# Finds a rustc that has the standard library for a target: rustup's where that target is installed, else Debian's.
# Afterwards "$cross_rustc" is it.
find_cross_rustc() {
  local target=$1 candidate libs
  while read -r candidate; do
    rustc_works "$candidate" || continue
    libs=$("$candidate" --print target-libdir --target "$target" 2>/dev/null) || continue
    if compgen -G "$libs/libstd-*.rlib" >/dev/null; then
      cross_rustc=$candidate
      return
    fi
  done < <(type -aP rustc; echo /usr/bin/rustc)
  return 1
}

# Debian's compilers for another architecture: rustc-web is a rustc recent enough, in stable releases too.
install_cross_tools() {
  local arch=$1 gnu=$2 why="building for $1 needs a cross compiler"
  if [ "$(id -u)" -ne 0 ] || ! command -v dpkg >/dev/null; then
    die "$why: a Rust target $(rust_target "$arch") (rustup target add) and $gnu-gcc"
  fi
  if ! dpkg --print-foreign-architectures | grep -qx "$arch"; then
    say "adding $arch to the architectures of this machine's dpkg"
    dpkg --add-architecture "$arch"
    quietly "$tools/log/apt.log" apt-get update || die "$why, and apt-get update has failed"
  fi
  install_packages "$why" rustc-web "libstd-rust-web-dev:$arch" "gcc-${gnu//_/-}" "libc6-dev-$arch-cross"
}

cross_library() {
  local arch=$1 target gnu product
  target=$(rust_target "$arch")
  gnu=${target/-unknown/}
  product=$(library_for "$arch")
  ! fresh "library-$arch" "$product" native || return 0
  ensure_cargo
  if ! command -v "$gnu-gcc" >/dev/null || ! find_cross_rustc "$target"; then
    install_cross_tools "$arch" "$gnu"
    find_cross_rustc "$target" || die "there is no rustc 1.$oldest_rust or later with a standard library for $target"
  fi
  say "building the native library for $arch with $("$cross_rustc" --version | cut -d' ' -f1-2)"
  begin_stamp "library-$arch"
  local linker=CARGO_TARGET_${target^^}_LINKER
  env RUSTC="$cross_rustc" "${linker//-/_}=$gnu-gcc" "$cargo" build --release --locked --quiet \
    --manifest-path native/Cargo.toml --target "$target" --target-dir target/cross >&2 || {
    say "the native library did not build for $arch"
    exit 1
  }
  mkdir -p "$(dirname "$product")"
  cp "target/cross/$target/release/libguestd.so" "$product.new"
  mv "$product.new" "$product"
  end_stamp "library-$arch"
}

# Deno for a guest, from PyPI as setup takes this machine's. For another architecture it cannot be run here, so pip is told
# which processor to choose a wheel for.
pypi_deno() {
  local arch=$1 pip to=$tools/deno-$1-$deno_version platform
  platform=manylinux_2_27_$(wheel_arch "$arch")
  [ ! -x "$to/deno" ] || return 0
  find_pip || die "Deno for $arch comes from PyPI's package deno, and there is no pip"
  say "fetching Deno $deno_version for $arch from PyPI's package deno (some 40 MB)"
  rm -rf "$tools/deno-$arch"*
  mkdir -p "$to.new"
  quietly "$tools/log/pip.log" "${pip[@]}" install --target "$to.new/wheel" --platform "$platform" --only-binary=:all: \
    --no-deps --no-cache-dir --disable-pip-version-check --quiet "deno==$deno_version" ||
    die "PyPI has not given deno $deno_version for $platform"
  mv "$to.new/wheel/bin/deno" "$to.new/deno"
  cp "$to.new"/wheel/deno-*.dist-info/licenses/LICENSE "$to.new/"
  rm -rf "$to.new/wheel"
  chmod +x "$to.new/deno"
  mv "$to.new" "$to"
}

# ensure_library ARCH, ensure_parts ARCH: up to date afterwards.
ensure_library() { own_arch "$1" || cross_library "$1"; }
ensure_parts() {
  ensure_library "$1"
  [ -x "$(deno_for "$1")" ] || pypi_deno "$1"
}
