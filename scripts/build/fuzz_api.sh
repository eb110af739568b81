# fuzz-api: Schemathesis against a daemon that it may break, by the daemon's own OpenAPI document. Needs root, to contain it.
source "$root/scripts/build/setup.sh"

# fuzz COUNT SEED: the daemon, what it starts and the files, which are in memory, are gone when it ends.
fuzz() {
  mkdir -p "$tools/fuzz"
  scripts/with_api_tools scripts/contained "$tools/fuzz" python3 "$root/tests/api/fuzz.py" "$root/scripts/guestd" "$1" "$2"
}

command_fuzz_api() {
  local count=${1:-20000}
  [[ $count =~ ^[0-9]+$ ]] || die "COUNT is a number of requests"
  [ "$(id -u)" -eq 0 ] || die "only root may contain what random requests start"
  set_up
  fuzz "$count" "${GUESTD_FUZZ_SEED:-$RANDOM}"
}
