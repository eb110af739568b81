# test: cargo's tests, then Deno's, against the bundle, then in a virtual machine where there is a QEMU. The last line
# is 'N passed, N failed'.
source "$root/scripts/build/setup.sh"
source "$root/scripts/build/vm.sh"

passed=0
failed=0

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
  mkdir -p "$tools/log"
  "$@" 2>&1 | tee "$log" || code=$?
  count "$log"
  if [ "$code" -ne 0 ] && [ "$failed" -eq "$before" ]; then failed=$((failed + 1)); fi
}

command_test() {
  set_up
  no_color
  if [ $# -gt 0 ]; then
    suite deno "$deno" test --frozen --allow-all "$@"
  else
    ensure_cargo
    say "testing the native library"
    suite cargo "$cargo" test --locked --quiet --manifest-path native/Cargo.toml --target-dir target
    say "testing the daemon"
    suite deno "$deno" test --frozen --allow-all
    say "testing the load driver, and the daemon by its short soak"
    suite driver "$cargo" test --locked --quiet --manifest-path tests/bench/Cargo.toml --target-dir target
    vm_part_of_test
  fi
  closing_line
}

closing_line() {
  echo
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# The summaries are read by count, which knows no colours.
no_color() {
  export NO_COLOR=1 CARGO_TERM_COLOR=never
  unset FORCE_COLOR
}
