# coverage: which lines of src and of native/src the tests execute, in the tests' own process and in the daemons that
# they start. coverage --one start|upload: which files one request takes, beyond what an idle daemon executes.
source "$root/scripts/build/test.sh"

covered=$tools/coverage
covered_target=$root/target/coverage
covered_library=$covered_target/release/libguestd.so
covered_launcher=$tools/covered/guestd

# Afterwards "$llvm" is the directory of the tools that read what this rustc's programs write.
find_llvm() {
  llvm=$(rustc --print target-libdir)/../bin
  [ -x "$llvm/llvm-cov" ] && return
  ! command -v rustup >/dev/null || quietly "$tools/log/rustup.log" rustup component add llvm-tools || true
  [ -x "$llvm/llvm-cov" ] || die "coverage needs LLVM's tools of this Rust's version: rustup component add llvm-tools"
}

# cargo_covered COMMAND...: with every line counted. Not optimised across crates, so that the lines stay their own.
cargo_covered() {
  RUSTFLAGS="-C instrument-coverage" CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    CARGO_PROFILE_RELEASE_STRIP=none LLVM_PROFILE_FILE=$covered/rust/cargo-%8m.profraw \
    "$cargo" "$@" --locked --quiet --manifest-path native/Cargo.toml --target-dir "$covered_target"
}

# The launcher, but of the sources instead of the bundle, and with the counting library.
make_covered_launcher() {
  mkdir -p "$(dirname "$covered_launcher")"
  sed -e "s|dist/guestd\.js|src/main.ts|" -e "2i : \"\${GUESTD_LIBRARY:=$covered_library}\"" \
    -e "2i export GUESTD_LIBRARY LLVM_PROFILE_FILE='$covered/rust/daemon-%8m.profraw' DENO_COVERAGE_DIR='$covered/daemon'" \
    -e "s|%/\*/\*}|%/*/*/*}|" scripts/guestd >"$covered_launcher"
  chmod +x "$covered_launcher"
}

# Empty directories, which daemons of other users write to as well.
clear_profiles() {
  rm -rf "$covered"
  mkdir -p "$covered"/{rust,daemon,tests}
  chmod -R a+rwx "$covered"
}

build_covered() {
  set_up
  ensure_cargo
  find_llvm
  say "building the native library with counters"
  cargo_covered build --release
  make_covered_launcher
  clear_profiles
}

# rust_lines PROFILES BINARY...: what these binaries ran, in lcov's format.
rust_lines() {
  local profiles=$1 objects=() binary
  shift
  for binary in "$@"; do objects+=(--object "$binary"); done
  "$llvm/llvm-profdata" merge --sparse --failure-mode=all "$covered/rust/$profiles"*.profraw -o "$covered/profdata"
  "$llvm/llvm-cov" export --format=lcov --instr-profile="$covered/profdata" "${objects[@]}" \
    --ignore-filename-regex='/\.cargo/|/cargo/registry/|/rustc/'
}

# What daemons ran. The JavaScript of what the launcher starts without a configuration is found without one.
daemon_lines() {
  rust_lines daemon "$covered_library"
  (cd / && "$deno" coverage --quiet --lcov "$covered/daemon")
}

lines_of() { "$deno" run --quiet --no-lock --allow-read scripts/lines.ts "$1" "$root" "${@:2}"; }

all_coverage() {
  local binaries
  # What fails because it counts, say memory, is no failure here; the figures are of what ran.
  cargo_covered test --release --no-fail-fast || true
  mapfile -t binaries < <(cargo_covered test --release --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
  export GUESTD_TEST_LAUNCHER=$covered_launcher
  shared_tests --coverage="$covered/tests" --coverage-raw-data-only || true
  deno_tests --coverage="$covered/tests" --coverage-raw-data-only tests/alone tests/memory tests/slow || true
  { daemon_lines; rust_lines cargo "${binaries[@]}"; "$deno" coverage --quiet --lcov "$covered/tests"; } >"$covered/lines.lcov"
  lines_of total "$covered/lines.lcov"
}

# one_life KIND REQUEST: a daemon from its start to its end, with the request and what it brings about, or without it
# where KIND is idle. Health tells when the command of a start has ended, and so it is asked in the idle life too; an
# upload is over when its memory is given back.
one_life() {
  local kind=$1 log=$covered/$1.log daemon url bearer='Authorization: Bearer secret'
  GUESTD_LISTEN=127.0.0.1:0 GUESTD_LOG=debug "$covered_launcher" 2>"$log" &
  daemon=$!
  # shellcheck disable=SC2064
  trap "kill $daemon 2>/dev/null" EXIT
  until_seen '"msg":"listening"' cat "$log"
  url=http://127.0.0.1:$(sed -n 's/.*"msg":"listening".*"port":\([0-9]*\).*/\1/p' "$log")
  ask "$url/platform/runtime/v1/run" -d '{"runHookPayload":"{\"agent_token\":\"secret\"}"}'
  case $kind in
    start) ask "$url/v1/exec/start" -H "$bearer" -d '{"exec_id":"one","command":["true"]}' >/dev/null ;;
    upload)
      truncate -s 500M "$covered/body"
      ask "$url/v1/fs/file?path=$covered/uploaded" -H "$bearer" -T "$covered/body"
      until_seen '"msg":"memory was given back"' cat "$log"
      ;;
  esac
  [ "$2" != start ] || until_seen '"busy":false' ask "$url/v1/health"
  kill "$daemon"
  wait "$daemon"
  trap - EXIT
  daemon_lines >"$covered/$kind.lcov"
  rm -rf "$covered"/{rust,daemon}/* "$covered/uploaded"
}

ask() { curl -sSf "$@" 2>>"$covered/curl.log"; }

# until_seen TEXT COMMAND...: until the command's output has it.
until_seen() {
  local text=$1 tries
  shift
  for ((tries = 0; tries < 600; tries++)); do
    if [[ $("$@") == *"$text"* ]]; then return; fi
    sleep 0.05
  done
  die "a daemon under coverage has not shown $text"
}

command_coverage() {
  export NO_COLOR=1
  case "$*" in
    "--one start" | "--one upload")
      build_covered
      one_life idle "$2"
      one_life "$2" "$2"
      lines_of beyond "$covered/idle.lcov" "$covered/$2.lcov"
      ;;
    --one*) die "one request is 'start' or 'upload'" ;;
    *) build_covered; all_coverage ;;
  esac
}
