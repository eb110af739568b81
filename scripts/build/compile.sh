# compile [amd64|arm64 [FILE]]: the daemon as one file, dist/guestd, native library and permissions inside.
source "$root/scripts/build/setup.sh"
source "$root/scripts/build/debian.sh"
source "$root/scripts/build/target.sh"

# What the daemon may do, and V8's flags: as the launcher gives them, so that no form has more than another. Of Deno's unstable
# ones vsock's counts in a compiled file; the other has no effect there but a line of its own in the log.
launch_flags() { grep -oE -- '--(allow-[a-z]+(=[^ ]+)?|no-prompt|unstable-vsock|v8-flags=[^ ]+)' scripts/guestd; }

# Seconds that deno compile may take: it fetches 40 MB of denort, and would wait for a silent host for ever.
compile_secs=${GUESTD_COMPILE_SECS:-120}

# Deno compiles by putting its runtime, denort, in front of the script: from DENORT_BIN, or from Deno's own host.
# usable_denort ARCH: DENORT_BIN, if it is set, is a file that can be it. Afterwards its path is absolute.
usable_denort() {
  [ -n "${DENORT_BIN:-}" ] || { unset DENORT_BIN; return 0; }
  [[ $DENORT_BIN == /* ]] || DENORT_BIN=$caller_directory/$DENORT_BIN
  export DENORT_BIN
  [ -f "$DENORT_BIN" ] && [ -r "$DENORT_BIN" ] || die "DENORT_BIN names no file that can be read: $DENORT_BIN"
  [ "$(elf_arch "$DENORT_BIN")" = "$1" ] || die "DENORT_BIN is no program for $1: $DENORT_BIN"
  elf_is_whole "$DENORT_BIN" || die "DENORT_BIN is cut short: $DENORT_BIN"
  [ -x "$DENORT_BIN" ] || die "DENORT_BIN is not executable: $DENORT_BIN"
}

# denort_missing CODE LOG: a sentence if deno compile failed for want of a runtime, which is then to be provided.
denort_missing() {
  if [ -n "${DENORT_BIN:-}" ]; then
    if grep -qE 'base binary|Writing binary bytes' "$2"; then
      echo "deno compile cannot use DENORT_BIN ($DENORT_BIN): is it the denort of Deno $deno_version?"
    fi
  elif [ "$1" -eq 124 ] || [ "$1" -eq 137 ]; then
    echo "deno compile needs Deno's denort $deno_version, and its host has not given it within $compile_secs s (GUESTD_COMPILE_SECS): name a file of it in DENORT_BIN"
  elif grep -q 'Setting up base binary' "$2"; then
    echo "deno compile needs Deno's denort $deno_version, and its host cannot be reached: name a file of it in DENORT_BIN"
  fi
}

# The library lies beside the script in the compiled file's own file system, where the daemon looks for it; from a
# directory that holds nothing else, since deno compile embeds whatever node_modules it comes across.
# compile_in STAGE ARCH: makes STAGE/guestd.new. Without a cache of V8's code, which would lie in TMPDIR under a name that
# anybody can take first.
compile_in() {
  local stage=$1 arch=$2 flags log=$tools/log/compile.log code=0 sentence
  mapfile -t flags < <(launch_flags)
  cp "$bundle" "$(library_for "$arch")" "$stage/"
  # In the foreground: an interrupt that ends the script has to reach deno too.
  (cd "$stage" && NO_COLOR=1 timeout --foreground -k 5 "$compile_secs" "$deno" compile --no-config --no-remote \
    --no-npm --no-check --no-code-cache --deny-import "${flags[@]}" --target "$(rust_target "$arch")" --include libguestd.so \
    --output guestd.new guestd.js) >"$log" 2>&1 || code=$?
  [ "$code" -ne 0 ] || return 0
  sentence=$(denort_missing "$code" "$log")
  [ -z "$sentence" ] || die "$sentence"
  tail -n 12 "$log" | sed 's/^/  | /' >&2
  say "deno compile has failed"
  exit 1
}

# Only on its own processor can a compiled file be seen to run.
check_runs() {
  local version
  version=$("$deno" eval --no-config 'console.log(JSON.parse(Deno.readTextFileSync("deno.json")).version)')
  [ "$(timeout 60 "$1" --version 2>/dev/null)" = "$version" ] ||
    die "the compiled file does not run: is DENORT_BIN the denort of Deno $deno_version?"
}

# In a subshell whose end, however it comes, takes with it what it has built.
compile_for() (
  arch=$1 product=$2
  [[ $compile_secs =~ ^[1-9][0-9]*$ ]] || die "GUESTD_COMPILE_SECS is no number of seconds: $compile_secs"
  usable_denort "$arch"
  mkdir -p "$tools/log" "$(dirname "$product")"
  built=$(mktemp -d "$tools/compile.XXXXXX")
  trap 'rm -rf "$built"' EXIT
  trap 'exit 130' INT TERM
  say "compiling the daemon for $arch into one file"
  compile_in "$built" "$arch"
  if own_arch "$arch"; then
    check_runs "$built/guestd.new"
  else
    say "it is for $arch and has not been run here: ./build.sh vm-test $arch runs it"
  fi
  mv "$built/guestd.new" "$product"
)

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
