#!/bin/sh
# Installs the daemon below DESTINATION as it ships: image/install.sh DESTINATION DENO BUNDLE LIBRARY, or
# image/install.sh DESTINATION COMPILED. The guest image and the Dockerfile both do it with this.
set -eu
case $# in
  2 | 4) ;;
  *) echo "usage: install.sh DESTINATION COMPILED, or DESTINATION DENO BUNDLE LIBRARY" >&2; exit 2 ;;
esac
here=$(cd "${0%/*}/.." && pwd -P)
to=$1
mkdir -p "$to/usr/bin"
if [ $# -eq 2 ]; then
  install -m 0755 "$2" "$to/usr/bin/guestd"
  exit
fi
# Laid out as in a checkout, since it is started by the same launcher: the daemon has the same permissions everywhere.
lib=$to/usr/lib/guestd
mkdir -p "$lib/.tools/bin" "$lib/dist" "$lib/scripts"
install -m 0755 "$2" "$lib/.tools/bin/deno"
install -m 0644 "$3" "$lib/dist/guestd.js"
install -m 0755 "$4" "$lib/dist/libguestd.so"
install -m 0755 "$here/scripts/guestd" "$lib/scripts/guestd"
printf '#!/bin/sh\nexec /usr/lib/guestd/scripts/guestd "$@"\n' >"$to/usr/bin/guestd"
chmod 0755 "$to/usr/bin/guestd"
