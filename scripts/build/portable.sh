# The library for guests older than this machine: linked against glibc 2.28 by zig, which knows every glibc's symbols.
# Needs setup.sh, debian.sh and target.sh.

# Deno itself needs 2.27, so that little would be won by an older one.
portable_glibc=2.28
zigbuild_version=0.24.0
ziglang_version=0.17.1
zig=$tools/zig-$ziglang_version-$zigbuild_version

portable_library() { echo "$root/dist/portable/$1/libguestd.so"; }

# Fails where PyPI cannot be had.
ensure_zig() {
  local pip
  [ ! -x "$zig/bin/cargo-zigbuild" ] || return 0
  find_pip || return 1
  say "installing cargo-zigbuild and zig from PyPI (some 110 MB)"
  rm -rf "$tools"/zig-*
  quietly "$tools/log/pip.log" "${pip[@]}" install --target "$zig.new" --no-deps --no-cache-dir \
    --disable-pip-version-check --quiet "cargo-zigbuild==$zigbuild_version" "ziglang==$ziglang_version" || return 1
  mv "$zig.new" "$zig"
}

# A rustc with the standard library of ARCH, in RUSTC: cargo's own where it has that.
portable_rustc() {
  local arch=$1 target
  target=$(rust_target "$arch")
  own_arch "$arch" && return 0
  find_cross_rustc "$target" || install_cross_tools "$arch" "${target/-unknown/}"
  find_cross_rustc "$target" || die "there is no rustc 1.$oldest_rust or later with a standard library for $target"
  export RUSTC=$cross_rustc
}

# No directory of this machine is in the library: what of it tells where a panic arose begins with the crate's name. The
# registry's directory is named after its address, which is another one for who has a mirror.
without_directories() {
  local directory flags=("--remap-path-prefix=$root/=")
  for directory in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do flags+=("--remap-path-prefix=$directory=crates/"); done
  local IFS=$'\x1f'
  echo "${flags[*]}"
}

# In a subshell, whose environment is the build's own.
build_portable() (
  arch=$1 target=$(rust_target "$1") product=$(portable_library "$1")
  ensure_cargo
  portable_rustc "$arch"
  say "building the native library for glibc $portable_glibc on $arch (two minutes or so)"
  begin_stamp "portable-$arch"
  quietly "$tools/log/fetch.log" "$cargo" fetch --locked --manifest-path native/Cargo.toml --target "$target" ||
    die "cargo cannot fetch the crates of the native library"
  unset RUSTFLAGS
  CARGO_ENCODED_RUSTFLAGS=$(without_directories)
  export CARGO_ENCODED_RUSTFLAGS PATH=$zig/bin:$PATH CARGO_ZIGBUILD_ZIG_PATH=$zig/ziglang/zig \
    CARGO_ZIGBUILD_CACHE_DIR=$tools/zig-cache ZIG_GLOBAL_CACHE_DIR=$tools/zig-cache ZIG_LOCAL_CACHE_DIR=$tools/zig-cache
  quietly "$tools/log/portable.log" "$cargo" zigbuild --release --locked --quiet --manifest-path native/Cargo.toml \
    --target "$target.$portable_glibc" --target-dir target/portable ||
    { say "the native library did not build for glibc $portable_glibc on $arch"; exit 1; }
  mkdir -p "$(dirname "$product")"
  cp "target/portable/$target/release/libguestd.so" "$product.new"
  mv "$product.new" "$product"
  end_stamp "portable-$arch"
)

# ensure_portable ARCH: up to date afterwards; fails where its tools cannot be had.
ensure_portable() {
  fresh "portable-$1" "$(portable_library "$1")" native ||
    { ensure_zig && build_portable "$1"; }
}

# glibc_of FILE...: the newest glibc that a symbol of one of them is of, 2.28 say; of files that are not there it tells nothing.
glibc_of() {
  need_commands "reading what a program needs takes a tool" readelf:binutils
  local file
  for file in "$@"; do [ ! -f "$file" ] || readelf -VW "$file"; done | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -Vu | tail -n 1
}
