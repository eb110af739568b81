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
  # Commands that name no directory start in the daemon's: here, in that of whoever runs this.
  cd "$caller_directory"
  # These are for other commands; to the daemon they would be settings that it does not know.
  unset GUESTD_DENO GUESTD_IMAGE_DISK_MIB "${!GUESTD_TEST_@}" "${!GUESTD_VM_@}" "${!GUESTD_PROPERTY_@}"
  # By default on loopback, also for an address that does not parse or names no host: a slip must not open this machine
  # to its network.
  exec "$root/scripts/guestd" --listen-default 127.0.0.1:9000 "$@"
}

command_demo() {
  set_up
  no_identity_repair
  exec "$deno" run --quiet --no-prompt --frozen --no-remote --allow-net=127.0.0.1 \
    --allow-run=bash --allow-read="$root" --allow-write="$tools" --allow-env \
    "$root/scripts/demo.ts" "$@"
}
