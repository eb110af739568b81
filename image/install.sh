#!/bin/sh
# Installs the daemon below DESTINATION as it ships: image/install.sh DESTINATION DENO BUNDLE LIBRARY, or
# image/install.sh DESTINATION COMPILED. The guest image and the Dockerfile both do it with this.
set -eu
here=$(cd "${0%/*}/.." && pwd -P)
to=$1
mkdir -p "$to/usr/bin"
if [ $# -eq 2 ]; then
  install -m 0755 "$2" "$to/usr/bin/guestd"
  exit
fi
lib=$to/usr/lib/guestd
mkdir -p "$lib/dist" "$lib/scripts"
install -m 0755 "$2" "$lib/deno"
install -m 0644 "$3" "$lib/dist/guestd.js"
install -m 0755 "$4" "$lib/dist/libguestd.so"
# The launcher of every other place, so that the daemon's permissions are the same here.
install -m 0755 "$here/scripts/guestd" "$lib/scripts/guestd"
printf '#!/bin/sh\nGUESTD_DENO=/usr/lib/guestd/deno exec /usr/lib/guestd/scripts/guestd "$@"\n' >"$to/usr/bin/guestd"
chmod 0755 "$to/usr/bin/guestd"
