# run and demo: both end by becoming another program, so that signals and the exit code are that program's.
source "$root/scripts/build/setup.sh"

# Nobody's own machine gets a new identity: only an image switches that on.
no_identity_repair() {
  if [ "${GUESTD_IDENTITY_REPAIR:-off}" != off ]; then say "identity repair stays off outside an image"; fi
  export GUESTD_IDENTITY_REPAIR=off
}

command_run() {
  set_up
  no_identity_repair
  # Also for an address that does not parse: a slip must not open this machine to its network.
  export GUESTD_LISTEN_FALLBACK=127.0.0.1:9000
  # Commands that name no directory start in the daemon's: here, the caller's.
  cd "$caller_directory"
  exec "$root/scripts/guestd" "$@"
}

command_demo() {
  set_up
  no_identity_repair
  exec "$deno" run --quiet --no-prompt --no-lock --no-remote --no-npm --allow-net=127.0.0.1 \
    --allow-run=bash --allow-read="$root" --allow-write="$tools" --allow-env \
    "$root/scripts/demo.ts" "$@"
}
