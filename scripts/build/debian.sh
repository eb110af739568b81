# What the image and the virtual machine take from Debian: tools on this machine, packages for the guest.

host_arch() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64 | arm64) echo arm64 ;;
    *) die "there is no guest image for this processor ($(uname -m)): amd64 or arm64" ;;
  esac
}

known_arch() {
  case $1 in
    amd64 | arm64) ;;
    *) die "there is no guest image for '$1': amd64 or arm64" ;;
  esac
}

# install_packages WHY PACKAGE...: as root, with one line that says so; otherwise a sentence and exit code 2.
install_packages() {
  local why=$1
  shift
  command -v apt-get >/dev/null || die "$why: install $* (Debian's names)"
  [ "$(id -u)" -eq 0 ] || die "$why: apt-get install $*"
  say "$why: installing Debian's $*"
  mkdir -p "$tools/log"
  local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@")
  # apt's lists may be missing, or so old that they name what is no longer there.
  "${install[@]}" >"$tools/log/apt.log" 2>&1 </dev/null && return
  quietly "$tools/log/apt.log" apt-get update || die "$why, and apt-get update has failed"
  quietly "$tools/log/apt.log" "${install[@]}" </dev/null || die "$why, and apt-get has failed to install $*"
}

# Tools for disks are in /sbin, which is not on everybody's PATH.
on_path() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null; }

# need_commands WHY COMMAND:PACKAGE...: installs the packages whose command is missing.
need_commands() {
  local why=$1 pair missing=()
  shift
  for pair in "$@"; do
    on_path "${pair%%:*}" || missing+=("${pair#*:}")
  done
  [ ${#missing[@]} -eq 0 ] || install_packages "$why" "${missing[@]}"
}

need_tools() {
  local tools_of_all=(dpkg-deb:dpkg apt-get:apt mke2fs:e2fsprogs cpio:cpio)
  [ "$(id -u)" -eq 0 ] || tools_of_all+=(fakeroot:fakeroot)
  need_commands "the guest image needs tools" "${tools_of_all[@]}"
  export PATH=$PATH:/usr/sbin:/sbin
}

# apt_for ARCH COMMAND...: apt with a state of its own, so that this machine's stays as it is and no root is needed.
apt_for() {
  local arch=$1 state=$tools/image/$1/apt program=$2
  shift 2
  mkdir -p "$state"/{lists/partial,cache/archives/partial}
  : >"$state/status"
  "$program" -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State=$state" \
    -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User= \
    -o Acquire::Languages=none -o APT::Get::List-Cleanup=false "$@"
}

# unpack_package ARCH PACKAGE NAME: downloads it, unless it is there, to unpacked/NAME.
unpack_package() {
  local arch=$1 package=$2 name=$3 home=$tools/image/$1
  rm -rf "$home/download"
  mkdir -p "$home/download" "$home/unpacked"
  (cd "$home/download" && quietly "$tools/log/apt.log" apt_for "$arch" apt-get download "$package") ||
    die "the guest image needs Debian's $package for $arch, which this machine's apt sources do not give"
  rm -rf "$home/unpacked/$name.new"
  dpkg-deb -x "$home/download/"*.deb "$home/unpacked/$name.new"
  basename "$home/download/"*.deb .deb >>"$home/packages"
  keep_what_ships "$home/unpacked/$name.new"
  mv "$home/unpacked/$name.new" "$home/unpacked/$name"
  rm -rf "$home/download"
}

# Of usr/share only what the licences ask for; gconv alone would be 8 MB.
keep_what_ships() {
  local share=$1/usr/share
  find "$share" -mindepth 1 -maxdepth 1 ! -name doc -exec rm -rf {} +
  find "$share/doc" -mindepth 2 ! -type d ! -name copyright -delete
  rm -rf "$1"/usr/lib/*/gconv
}

# Newer releases compress the modules, and then neither the build nor busybox could read them.
expand_modules() {
  [ -n "$(find "$1" -name '*.ko.xz' -print -quit)" ] || return 0
  need_commands "the kernel's modules are compressed" xz:xz-utils
  find "$1" -name '*.ko.xz' -exec xz --decompress {} +
}

update_lists() {
  quietly "$tools/log/apt.log" apt_for "$1" apt-get update ||
    die "the guest image is made of Debian's packages, and apt-get update has failed"
}

# fetch_packages ARCH: kernel, busybox, script(1), C library, for the guest; once, until image --fresh or until this file, which
# says what is kept of them, is another one.
fetch_packages() {
  local arch=$1 home=$tools/image/$1 kernel recipe
  recipe=$(cksum <scripts/build/debian.sh)
  ! grep -qsxF "$recipe" "$home/unpacked/complete" || return 0
  say "fetching Debian's kernel, busybox and C library for $arch (some 40 MB)"
  rm -rf "$home"
  mkdir -p "$home"
  update_lists "$arch"
  # apt-get update takes sources that are out of reach for a success: it is seen here that there is nothing.
  kernel=$(apt_for "$arch" apt-cache depends "linux-image-cloud-$arch" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1) || true
  if [ -z "$kernel" ]; then
    tail -n 12 "$tools/log/apt.log" | sed 's/^/  | /' >&2
    die "the guest image needs Debian's linux-image-cloud-$arch, which this machine's apt sources do not give"
  fi
  unpack_package "$arch" "$kernel" kernel
  expand_modules "$home/unpacked/kernel"
  unpack_package "$arch" busybox-static busybox-static
  unpack_package "$arch" libc6 libc6
  # Of it script(1) alone, which gives a shell its terminal.
  unpack_package "$arch" bsdutils bsdutils
  unpack_package "$arch" libgcc-s1 libgcc-s1
  # Its documents are a link to those of the compiler's base.
  unpack_package "$arch" "$(basename "$(readlink "$home/unpacked/libgcc-s1/usr/share/doc/libgcc-s1")")" gcc-base
  rm -rf "$home/apt"
  echo "$recipe" >"$home/unpacked/complete"
}

# lib_of PACKAGE NAME: its top directory NAME (lib, lib64), where a release has it; nothing where there is none.
lib_of() {
  local place
  for place in "$1/$2" "$1/usr/$2"; do
    [ ! -d "$place" ] || { echo "$place"; return; }
  done
}

# busybox_of ARCH: its program, where a release has it.
busybox_of() {
  local place
  for place in bin usr/bin; do
    place=$tools/image/$1/unpacked/busybox-static/$place/busybox
    [ ! -x "$place" ] || { echo "$place"; return; }
  done
  return 1
}

# One that runs here, to ask for its applets.
fetch_own_busybox() {
  local own
  own=$(host_arch)
  ! busybox_of "$own" >/dev/null || return 0
  say "fetching Debian's busybox for $own"
  mkdir -p "$tools/image/$own"
  update_lists "$own"
  unpack_package "$own" busybox-static busybox-static
}
