# test: Deno's tests, several files at a time, and cargo's beside them, then those that need the machine to themselves. What
# takes longer is ci's. The last line is 'N passed, N failed'.
source "$root/scripts/build/faults.sh"

passed=0
failed=0

# Test files that run at once: most of them wait for a daemon, so that a processor carries three.
jobs=${GUESTD_TEST_JOBS:-$(($(nproc) * 3))}

# count LOG: adds up the summary lines of cargo test ('... 3 passed; 1 failed; ...') and of deno test
# ('ok | 3 passed (2 steps) | 1 failed'; without failures it says '0 failed' too).
count() {
  local found
  found=$(sed -n -E \
    -e 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed;.*/\1 \2/p' \
    -e 's/^(ok|FAILED) \| ([0-9]+) passed.* \| ([0-9]+) failed.*/\2 \3/p' "$1" |
    awk '{ p += $1; f += $2 } END { print p + 0, f + 0 }')
  passed=$((passed + ${found% *}))
  failed=$((failed + ${found#* }))
}

# suite NAME COMMAND...: shows and counts it. One that ends badly with no failure counted, say because it did
# not compile, is a failure.
suite() {
  local log=$tools/log/$1.log before=$failed code=0
  shift
  "$@" 2>&1 | tee "$log" || code=$?
  count "$log"
  if [ "$code" -ne 0 ] && [ "$failed" -eq "$before" ]; then failed=$((failed + 1)); fi
}

made=
# What goes on beside a suite does not hear the terminal's interrupt.
leave_nothing() {
  jobs -p | xargs -r kill 2>/dev/null || true
  end_aside
  rm -rf "$made"
}

# Scratch files lie in memory where there is room: hundreds of thousands of them are made and removed, for which a disk takes
# minutes. TMPDIR says otherwise, and the checks in a virtual machine have a disk.
scratch_in_memory() {
  local shared=/dev/shm room
  trap leave_nothing EXIT
  trap 'exit 130' INT TERM
  [ -z "${TMPDIR:-}" ] && [ -w "$shared" ] && [ "$(stat -f -c %T "$shared")" = tmpfs ] || return 0
  room=$({ df -k --output=avail "$shared" | sed 1d; sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo; } | sort -n | head -n 1)
  [ "$room" -ge $((6 << 20)) ] || return 0
  made=$(mktemp -d "$shared/guestd-XXXXXX")
  # Other users' daemons use it as well, and programs are run from it, which its mount may forbid.
  chmod 1777 "$made"
  cp /bin/true "$made/true"
  if "$made/true" 2>/dev/null; then export TMPDIR=$made; fi
}

# Types are looked at by `check`, once, and not by each suite anew.
deno_tests() { "$deno" test --frozen --no-check --allow-all "$@"; }
cargo_tests() { "$cargo" test --locked --quiet --no-fail-fast --target-dir target --manifest-path "$@"; }

# told CODE LOG: what a suite that ran beside another said, and how it ended.
told() { cat "$2"; return "$1"; }

# Files that share the machine, several at a time.
shared_tests() {
  DENO_JOBS=$jobs deno_tests --parallel "$@" tests/unit tests/support tests/packages tests/contract tests/client tests/property tests/scenario
}

# Suites that run beside another one, by their process.
declare -A others

# beside NAME COMMAND...: runs it while a suite goes on; `joined` waits for its end.
beside() {
  "${@:2}" >"$tools/log/$1.beside" 2>&1 &
  others[$1]=$!
}

# joined NAME: waits for what runs beside, shows and counts it.
joined() {
  local code=0
  wait "${others[$1]}" || code=$?
  suite "$1" told "$code" "$tools/log/$1.beside"
}

quick_suites() {
  ensure_cargo
  if [ "$(id -u)" -ne 0 ] || ! (ensure_strace); then say "skipping the sample of failing system calls"; fi
  cargo_tests native/Cargo.toml --no-run
  say "testing the daemon, $jobs files at a time, and the native library beside it"
  beside cargo cargo_tests native/Cargo.toml
  suite deno shared_tests
  joined cargo
  say "testing races and time limits, one file at a time, and memory and readers on slow networks beside them"
  beside slow deno_tests tests/slow
  DENO_JOBS=3 beside memory deno_tests --parallel tests/memory
  suite alone deno_tests tests/alone
  joined slow
  joined memory
}

command_test() {
  set_up
  no_color
  SECONDS=0
  scratch_in_memory
  if [ $# -gt 0 ]; then
    suite deno "$deno" test --frozen --allow-all "$@"
  else
    say "this takes about three minutes on two processors, and some more where Rust's tests are not built yet"
    quick_suites
  fi
  closing_line
}

closing_line() {
  echo
  say "the tests took $SECONDS s"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# The summaries are read by count, which knows no colours.
no_color() {
  mkdir -p "$tools/log"
  export NO_COLOR=1 CARGO_TERM_COLOR=never
  unset FORCE_COLOR
}
