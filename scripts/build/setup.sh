# setup: brings Deno, the native library and the bundle up to date. What is up to date costs one look at mtimes.
source "$root/scripts/build/deno.sh"
source "$root/scripts/build/cargo.sh"

library=$root/dist/libguestd.so
bundle=$root/dist/guestd.js
ctl=$root/dist/guestctl.js
stamps=$tools/stamps

# fresh STAMP PRODUCT INPUT...: the product is there and nothing of the inputs is newer than the stamp, which
# holds the time at which the build began. Directories count, so that a deleted file is noticed too.
fresh() {
  local stamp=$stamps/$1 product=$2 newer
  shift 2
  [ -e "$stamp" ] && [ -e "$product" ] || return 1
  newer=$(find "$@" -path '*/target' -prune -o -newer "$stamp" -print -quit 2>/dev/null) || return 1
  [ -z "$newer" ]
}

library_fresh() { fresh library "$library" native; }
bundle_fresh() { fresh bundle "$bundle" src deno.json deno.lock "$deno" && [ ! "$deno" -nt "$stamps/bundle" ]; }

ctl_fresh() { fresh guestctl "$ctl" src/ctl src/client src/contract deno.json deno.lock "$deno"; }

begin_stamp() { mkdir -p "$stamps" dist && : >"$stamps/$1.new"; }
# A stamp is renamed, not touched, at the end: a file edited during the build is newer than it.
end_stamp() { mv "$stamps/$1.new" "$stamps/$1"; }

build_library() {
  ensure_cargo
  say "building the native library (a minute or so the first time)"
  begin_stamp library
  local quiet=()
  [ -t 2 ] || quiet=(--quiet)
  if ! "$cargo" build --release --locked "${quiet[@]}" --manifest-path native/Cargo.toml --target-dir target >&2; then
    command -v cc >/dev/null || die "cargo needs a C linker: install gcc or clang so that there is a cc on PATH"
    say "the native library did not build"
    exit 1
  fi
  # Renamed into place: a daemon that is running keeps the old file.
  cp target/release/libguestd.so "$library.new"
  mv "$library.new" "$library"
  end_stamp library
}

build_bundle() {
  say "bundling the daemon"
  # Before the stamp: what it writes is then no newer than the bundle.
  "$deno" run --quiet --no-config --no-lock --allow-read=src/contract --allow-write=src/contract scripts/descriptions.ts
  begin_stamp bundle
  if ! "$deno" bundle --quiet --frozen --platform deno -o "$bundle.new" src/main.ts >&2; then
    rm -f "$bundle.new"
    say "the bundle did not build"
    exit 1
  fi
  mv "$bundle.new" "$bundle"
  end_stamp bundle
}

# Not minified: its errors have the names of their classes.
build_ctl() {
  say "bundling guestctl"
  begin_stamp guestctl
  if ! "$deno" bundle --quiet --frozen --platform deno -o "$ctl.new" src/ctl/main.ts >&2; then
    rm -f "$ctl.new"
    say "guestctl did not build"
    exit 1
  fi
  mv "$ctl.new" "$ctl"
  end_stamp guestctl
}

up_to_date() { deno_is_wanted && library_fresh && bundle_fresh && ctl_fresh; }

ensure_bundles() {
  ensure_deno
  bundle_fresh || build_bundle
  ctl_fresh || build_ctl
}

# The bundles are made while the library is built.
ensure_all() {
  trap end_aside EXIT
  aside ensure_bundles
  library_fresh || build_library
  joined_aside
}

# In a subshell that holds the lock: two builds at once take turns, and nothing that runs later inherits it.
set_up() {
  if up_to_date; then return; fi
  if ! mkdir -p "$tools" 2>/dev/null || ! : 2>/dev/null >>"$tools/lock"; then
    die "cannot write to $tools, where everything is built: run as the owner of this checkout"
  fi
  (
    if command -v flock >/dev/null && ! flock -n 9; then
      say "waiting for another build in this checkout"
      flock 9
    fi
    ensure_all
  ) 9>"$tools/lock"
}

command_setup() { set_up; }
