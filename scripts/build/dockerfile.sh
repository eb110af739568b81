# dockerfile: builds image/Dockerfile without a container engine, by Debian's buildah, and drives what it has made. The
# last line is 'N passed, N failed'.
source "$root/scripts/build/test.sh"

containers=$tools/containers

# Everything that buildah keeps is in the checkout, in plain directories.
buildah=(buildah --storage-driver vfs --root "$containers/storage" --runroot "$containers/run")

# base NAME STAND_IN...: the base image NAME is there: from its registry, or, where that is out of reach, as STAND_IN
# makes it.
base() {
  local name=docker.io/library/$1
  shift
  ! "${buildah[@]}" inspect --type image "$name" >/dev/null 2>&1 || return 0
  say "pulling $name"
  ! timeout 120 "${buildah[@]}" pull --quiet "$name" >"$tools/log/buildah.log" 2>&1 || return 0
  say "its registry is out of reach: a stand-in is made, $1"
  "$2" "$name"
}

# commit_as NAME CONTAINER: the container becomes that image.
commit_as() {
  quietly "$tools/log/buildah.log" "${buildah[@]}" commit --quiet "$2" "$1" || die "buildah cannot commit $1"
  "${buildah[@]}" rm "$2" >/dev/null
}

in_container() { quietly "$tools/log/buildah.log" "${buildah[@]}" run --isolation chroot "$@"; }

debian_stand_in() {
  local tree=$containers/bookworm container
  need_commands "a stand-in for Debian's image needs a tool" debootstrap:debootstrap
  rm -rf "$tree"
  quietly "$tools/log/debootstrap.log" debootstrap --variant=minbase bookworm "$tree" ||
    die "debootstrap has failed to make a Debian bookworm"
  container=$("${buildah[@]}" from --quiet scratch)
  "${buildah[@]}" add --quiet "$container" "$tree" / >/dev/null
  rm -rf "$tree"
  commit_as "$1" "$container"
}

rust_stand_in() {
  local container sysroot
  sysroot=$(rustc --print sysroot)
  container=$("${buildah[@]}" from --quiet --pull-never docker.io/library/debian:bookworm-slim)
  in_container "$container" sh -c 'apt-get update && apt-get install -y --no-install-recommends ca-certificates gcc libc6-dev' ||
    die "a stand-in for Rust's image needs gcc from Debian"
  # Registries that this machine trusts by certificates of its own are to be trusted in there too.
  "${buildah[@]}" add --quiet "$container" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ >/dev/null
  "${buildah[@]}" add --quiet "$container" "$sysroot/bin" /usr/local/bin >/dev/null
  "${buildah[@]}" add --quiet "$container" "$sysroot/lib" /usr/local/lib >/dev/null
  commit_as "$1" "$container"
}

# start_guest DIRECTORY VARIABLE=VALUE... PROGRAM...: as PID 1 of namespaces of its own, network included. Afterwards
# "$guest" is the process whose end is the guest's, and its namespaces are there: who entered those of a process that has
# not made its own yet would be in this machine's, and see no guest for ever.
start_guest() {
  local lo_up code=0
  # shellcheck disable=SC2016 # the inner shell's
  exec {lo_up}< <(exec unshare --mount --pid --net --fork --kill-child=KILL sh -ec '
    tree=$1
    shift
    mount --bind "$tree" "$tree"
    mount -t proc proc "$tree/proc"
    mount --rbind /dev "$tree/dev"
    ip link set lo up
    echo up
    exec env -i "$@" >&2' - "$@" 2>"$tools/log/dockerfile_guest.log" </dev/null)
  guest=$!
  # An interrupted run leaves no daemon behind.
  trap 'kill -KILL "$guest" 2>/dev/null' EXIT
  read -r -u "$lo_up" || code=$?
  exec {lo_up}<&-
  [ "$code" -eq 0 ] || die "the guest's namespaces cannot be made: $(tail -n 1 "$tools/log/dockerfile_guest.log")"
}

# The terminate hook ends it; one that is still there after ten seconds is ended here.
guest_has_ended() {
  local code=0
  timeout 10 tail --pid="$guest" -f /dev/null || code=$?
  if [ "$code" -ne 0 ]; then
    say "the guest has not ended by itself"
    kill -KILL "$guest"
  fi
  # The shell would tell which signal ended it, which is how a namespace is powered off.
  { wait "$guest"; } 2>/dev/null || true
  trap - EXIT
  return "$code"
}

# stated CONTAINER FIELD: a list of its image's configuration, one a line.
stated() { "${buildah[@]}" inspect --format "{{range .OCIv1.Config.$2}}{{println .}}{{end}}" "$1" | grep .; }

# The settings and the entrypoint are those that the image states.
drive_guest() {
  local container tree settings entrypoint
  container=$("${buildah[@]}" from --quiet --pull-never localhost/guestd)
  tree=$("${buildah[@]}" mount "$container")
  mapfile -t settings < <(stated "$container" Env)
  mapfile -t entrypoint < <(stated "$container" Entrypoint)
  start_guest "$tree" "${settings[@]}" chroot "$tree" "${entrypoint[@]}"
  suite dockerfile nsenter "--net=/proc/$guest/ns/net" "$deno" test --frozen --allow-all tests/vm/dockerfile_checks.ts
  guest_has_ended || failed=$((failed + 1))
  "${buildah[@]}" rm "$container" >/dev/null
  # The bases stay for the next time.
  "${buildah[@]}" rmi localhost/guestd >/dev/null
}

command_dockerfile() {
  [ "$(id -u)" -eq 0 ] || die "building the Dockerfile without a container engine takes root"
  set_up
  source "$root/scripts/build/debian.sh"
  need_commands "driving what the Dockerfile makes needs tools" unshare:util-linux ip:iproute2
  # buildah does not start without netavark, a program that is on nobody's PATH.
  if ! on_path buildah || [ ! -x /usr/lib/podman/netavark ]; then
    install_packages "building the Dockerfile needs tools" buildah netavark
  fi
  ensure_cargo
  mkdir -p "$containers" "$tools/log"
  # What an interrupted run has left.
  "${buildah[@]}" rm --all >/dev/null
  base debian:bookworm-slim "Debian's bookworm by debootstrap" debian_stand_in
  base rust:1-slim-bookworm "that with gcc and this machine's Rust" rust_stand_in
  say "building image/Dockerfile"
  quietly "$tools/log/buildah.log" "${buildah[@]}" bud --isolation chroot --layers=false --pull-never -t guestd \
    -f image/Dockerfile . || { say "image/Dockerfile did not build"; exit 1; }
  no_color
  drive_guest
  closing_line
}
