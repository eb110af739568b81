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

command_ci() {
  set_up
  no_color
  SECONDS=0
  scratch_in_memory
  say "this takes some fifteen minutes on two processors, and more where tools have to be fetched"
  "$root/build.sh" check || failed=$((failed + 1))
  quick_suites
  say "comparing the daemon with its models for longer; beside that random requests, and a look at the pages"
  documented_part
  PROPTEST_CASES=2000 suite archives cargo_tests native/Cargo.toml --test archives
  say "attacking the daemon by thousands, and trying the client's package"
  suite long deno_tests tests/long
  say "testing the load driver, and the daemon by its short soak"
  suite driver cargo_tests tests/bench/Cargo.toml
  guest_part
  closing_line
}
