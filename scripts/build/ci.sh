# ci: check, test, and what takes too long for every test run: properties for longer, the soak, random requests, the guest
# image in QEMU. The last line is 'N passed, N failed'.
source "$root/scripts/build/test.sh"
source "$root/scripts/build/vm.sh"
source "$root/scripts/build/fuzz_api.sh"
source "$root/scripts/build/docs.sh"

# The guest, where all that it takes is there. Whoever is root can install what is missing, and has to.
guest_part() {
  local arch code=0
  arch=$(host_arch)
  (need_qemu "$arch" && ensure_image "$arch") || code=$?
  if [ "$code" -eq 0 ]; then
    guest_suites "$arch"
  elif [ "$code" -eq 2 ] && [ "$(id -u)" -ne 0 ]; then
    say "skipping the checks in a virtual machine"
  else
    failed=$((failed + 1))
  fi
}

# What is made of the OpenAPI document: a client and the pages, and random requests where root can contain them. It goes on
# beside the models, which wait more than they work.
documented_part() {
  local code=0 beside=()
  suite api deno_tests tests/api
  if [ "$(id -u)" -eq 0 ]; then beside fuzz-api fuzz 1000 1; beside+=(fuzz-api); else say "skipping fuzz-api: only root may contain it"; fi
  (need_chromium) || code=$?
  if [ "$code" -eq 0 ]; then
    beside docs build_and_check_docs
    beside+=(docs)
  elif [ "$(id -u)" -ne 0 ]; then
    say "skipping the look at the pages"
  else
    failed=$((failed + 1))
  fi
  GUESTD_PROPERTY_RUNS=500 suite models deno_tests --parallel tests/property
  local name
  for name in "${beside[@]}"; do joined "$name"; done
}

# What later parts need of Debian and npm, as far as it can be had: they say what they miss.
fetch_ahead() {
  (need_qemu "$(host_arch)" && ensure_image "$(host_arch)") || true
  (need_chromium && ensure_scalar) || true
}

lap=0
# timed PART COMMAND...: says how long it took.
timed() {
  "${@:2}"
  say "$1 took $((SECONDS - lap)) s"
  lap=$SECONDS
}

checks() {
  aside fetch_ahead >"$tools/log/ahead.log" 2>&1
  "$root/build.sh" check || failed=$((failed + 1))
  joined_aside
}

longer_suites() {
  PROPTEST_CASES=2000 suite archives cargo_tests native/Cargo.toml --test archives
  suite long deno_tests tests/long
  suite driver cargo_tests tests/bench/Cargo.toml
}

command_ci() {
  set_up
  no_color
  SECONDS=0
  scratch_in_memory
  say "this takes some twelve minutes on two processors, and more where tools have to be fetched"
  timed "check, and fetching what is missing" checks
  timed "the test run" quick_suites
  say "comparing the daemon with its models for longer; beside that random requests, and a look at the pages"
  timed "the documents and the models" documented_part
  say "attacking the daemon by thousands, trying the client's package, and testing the load driver by a short soak"
  timed "attacks, package and driver" longer_suites
  timed "the guest" guest_part
  closing_line
}
