# compile [amd64|arm64 [FILE]]: the daemon as one file, dist/guestd, native library and permissions inside.
source "$root/scripts/build/setup.sh"
source "$root/scripts/build/debian.sh"
source "$root/scripts/build/target.sh"

# What the daemon may do, and V8's flags: as the launcher gives them, so that no form has more than another.
launch_flags() { grep -oE -- '--(allow-[a-z]+(=[^ ]+)?|no-prompt|v8-flags=[^ ]+)' scripts/guestd; }

# The processor that an ELF file is for, in Debian's words; nothing for any other file.
elf_arch() {
  case $(od -An -tx1 -j0 -N20 "$1" 2>/dev/null | tr -d ' \n') in
    7f454c46*3e00) echo amd64 ;;
    7f454c46*b700) echo arm64 ;;
  esac
}

# Deno compiles by putting its runtime, denort, in front of the script: from DENORT_BIN, or from Deno's own host.
# usable_denort ARCH: DENORT_BIN, if it is set, is a file that can be it.
usable_denort() {
  [ -n "${DENORT_BIN:-}" ] || return 0
  [ -r "$DENORT_BIN" ] || die "DENORT_BIN names no file that can be read: $DENORT_BIN"
  [ "$(elf_arch "$DENORT_BIN")" = "$1" ] || die "DENORT_BIN is no program for $1: $DENORT_BIN"
}

# The library lies beside the script in the compiled file's own file system, where the daemon looks for it; from a
# directory that holds nothing else, since deno compile embeds whatever node_modules it comes across.
compile_for() {
  local arch=$1 product=$2 stage flags log=$tools/log/compile.log version
  usable_denort "$arch"
  mapfile -t flags < <(launch_flags)
  mkdir -p "$tools/log" "$(dirname "$product")"
  stage=$(mktemp -d "$tools/compile.XXXXXX")
  cp "$bundle" "$(library_for "$arch")" "$stage/"
  say "compiling the daemon for $arch into one file"
  if ! (cd "$stage" && NO_COLOR=1 "$deno" compile --no-config --no-remote --no-npm --no-check --deny-import "${flags[@]}" \
    --target "$(rust_target "$arch")" --include libguestd.so --output guestd.new guestd.js) >"$log" 2>&1; then
    rm -rf "$stage"
    if grep -q 'Setting up base binary' "$log"; then
      die "deno compile needs Deno's denort $deno_version for $arch, and its host cannot be reached: name a file of it in DENORT_BIN"
    fi
    tail -n 12 "$log" | sed 's/^/  | /' >&2
    say "deno compile has failed"
    exit 1
  fi
  version=$("$deno" eval --no-config 'console.log(JSON.parse(Deno.readTextFileSync("deno.json")).version)')
  if own_arch "$arch" && [ "$("$stage/guestd.new" --version 2>/dev/null)" != "$version" ]; then
    rm -rf "$stage"
    die "the compiled file does not run: is DENORT_BIN the denort of Deno $deno_version?"
  fi
  mv "$stage/guestd.new" "$product"
  rm -rf "$stage"
}

command_compile() {
  local arch=${1:-$(host_arch)} product
  known_arch "$arch"
  product=${2:-$(compiled_file "$arch")}
  [[ $product == /* ]] || product=$caller_directory/$product
  set_up
  ensure_library "$arch"
  compile_for "$arch" "$product"
  say "$product has $(($(wc -c <"$product") / 1048576)) MiB"
}
