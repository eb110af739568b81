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
  # Nothing of it is used but binaries; gconv alone would be 8 MB.
  rm -rf "$home/unpacked/$name.new/usr/share" "$home/unpacked/$name.new"/usr/lib/*/gconv
  mv "$home/unpacked/$name.new" "$home/unpacked/$name"
  rm -rf "$home/download"
}

# fetch_packages ARCH: kernel, busybox, C library, for the guest; once.
fetch_packages() {
  local arch=$1 home=$tools/image/$1 kernel
  [ "$arch" = "$(host_arch)" ] || fetch_packages "$(host_arch)"
  [ ! -e "$home/unpacked/complete" ] || return 0
  say "fetching Debian's kernel, busybox and C library for $arch (some 40 MB)"
  rm -rf "$home"
  mkdir -p "$home"
  quietly "$tools/log/apt.log" apt_for "$arch" apt-get update ||
    die "the guest image is made of Debian's packages, and apt-get update has failed"
  kernel=$(apt_for "$arch" apt-cache depends "linux-image-cloud-$arch" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1)
  [ -n "$kernel" ] || die "the guest image needs linux-image-cloud-$arch, which this machine's apt sources do not give"
  unpack_package "$arch" "$kernel" kernel
  unpack_package "$arch" busybox-static busybox-static
  unpack_package "$arch" libc6 libc6
  unpack_package "$arch" libgcc-s1 libgcc-s1
  rm -rf "$home/apt"
  : >"$home/unpacked/complete"
}
