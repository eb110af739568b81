# What is installed, as a tree: root/ has the files where they belong, `needs` says what they need, and install.sh puts them
# into a root directory. Packages, image and `install` are all made of it. Needs setup.sh, debian.sh, target.sh, portable.sh.

version() { sed -n 's/^  "version": "\(.*\)",$/\1/p' deno.json; }

# Seconds since 1970 that every file in a package bears: the commit's.
source_epoch() {
  local epoch=${SOURCE_DATE_EPOCH:-}
  [ -n "$epoch" ] || epoch=$(git log -1 --format=%ct 2>/dev/null) ||
    die "there is no git history to take a time from: set SOURCE_DATE_EPOCH"
  [[ $epoch =~ ^[0-9]+$ ]] || die "SOURCE_DATE_EPOCH is no number of seconds: $epoch"
  echo "$epoch"
}

# put MODE FROM TO: a file.
put() { install -D -m "$1" "$2" "$3"; }

# stage_daemon ARCH ROOT FORM LIBRARY: the daemon itself, as one compiled file or as deno and bundle.
stage_daemon() {
  local arch=$1 lib=$2/usr/lib/guestd form=$3 library=$4
  if [ "$form" = compiled ]; then
    put 0755 "$(compiled_file "$arch")" "$lib/guestd"
  else
    put 0755 "$(deno_for "$arch")" "$lib/deno"
    put 0644 "$bundle" "$lib/guestd.js"
    put 0644 "$ctl" "$lib/guestctl.js"
    put 0755 scripts/guestctl "$2/usr/bin/guestctl"
  fi
  put 0755 "$library" "$lib/libguestd.so"
  put 0755 scripts/guestd "$2/usr/bin/guestd"
  version >"$lib/version"
}

# The directory with Deno's licence, where its package has it.
deno_licence() {
  local place
  for place in "$(dirname "$1")" "$(dirname "$1")"/../deno-*.dist-info/licenses; do
    if [ -f "$place/LICENSE" ]; then echo "$place"; return; fi
  done
}

# What ships and is in no list of crates or npm packages: NAME|VERSION|LICENCE|DIRECTORY.
other_ingredients() {
  local arch=$1 library=$2
  echo "deno|$deno_version|MIT|$(deno_licence "$(deno_for "$arch")")"
  (
    own_arch "$arch" || find_cross_rustc "$(rust_target "$arch")" || true
    echo "rust-std|$("${cross_rustc:-rustc}" --version | cut -d' ' -f2)|MIT OR Apache-2.0|"
  )
  # zig links its own unwinder in, where others have that of gcc's library.
  [ "$library" != "$(portable_library "$arch")" ] ||
    echo "llvm-libunwind|zig-$ziglang_version|Apache-2.0 WITH LLVM-exception|$zig/ziglang/lib/libunwind"
}

stage_documents() {
  local arch=$1 share=$2/usr/share form=$3 library=$4 page rows scripts=src/main.ts
  mkdir -p "$share"/{man/man1,man/man8,doc/guestd}
  "$deno" run --quiet --no-config --no-lock --no-prompt --allow-run="$root/scripts/guestd,$root/scripts/guestctl" --allow-write="$share" \
    scripts/package/manual.ts "$root" "$share/man"
  for page in "$share"/man/*/*; do gzip -n -9 "$page"; done
  if [ "$form" = compiled ]; then rm -r "$share/man/man1"; else scripts+=,src/ctl/main.ts; fi
  ensure_cargo
  mapfile -t rows < <(other_ingredients "$arch" "$library")
  "$cargo" metadata --quiet --format-version 1 --locked --filter-platform "$(rust_target "$arch")" --manifest-path native/Cargo.toml |
    "$deno" run --quiet --no-config --no-lock --no-prompt --allow-read --allow-write="$share" --allow-run="$(readlink -f "$deno")" \
      scripts/package/ingredients.ts "$share/doc/guestd" "$arch" "$scripts" "${rows[@]}"
}

# stage ARCH DIRECTORY FORM LIBRARY: all of it.
stage() {
  local arch=$1 to=$2 form=$3 library=$4
  stage_daemon "$arch" "$to/root" "$form" "$library"
  stage_documents "$arch" "$to/root" "$form" "$library"
  put 0644 image/package/guestd.env "$to/root/etc/guestd.env"
  put 0644 image/package/guestd.service "$to/root/usr/lib/systemd/system/guestd.service"
  put 0644 image/package/guestd.slice "$to/root/usr/lib/systemd/system/guestd.slice"
  put 0755 image/package/guestd.openrc "$to/guestd.openrc"
  put 0644 image/package/INSTALL "$to/INSTALL"
  put 0755 image/install.sh "$to/install.sh"
  {
    echo "version=$(version)"
    echo "arch=$arch"
    echo "glibc=$(glibc_of "$to"/root/usr/lib/guestd/{deno,guestd,libguestd.so})"
    echo "kib=$(du -sk --apparent-size "$to/root" | cut -f1)"
  } >"$to/needs"
}
