# image [amd64|arm64] [--debian] [--fresh]: a kernel, an initramfs and a root file system in dist/image/ARCH, from Debian's
# packages; --fresh fetches those anew, with the updates there are.
source "$root/scripts/build/install.sh"
source "$root/scripts/build/package.sh"
source "$root/scripts/build/initramfs.sh"
source "$root/scripts/build/debian_guest.sh"

# The disk's size in MiB; half of the least is what the daemon takes.
least_disk_mib=256
disk_mib=${GUESTD_IMAGE_DISK_MIB:-2048}

check_disk_size() {
  [[ $disk_mib =~ ^[1-9][0-9]{2,6}$ ]] && [ "$disk_mib" -ge "$least_disk_mib" ] ||
    die "GUESTD_IMAGE_DISK_MIB is the disk's size in MiB, at least $least_disk_mib: not '$disk_mib'"
}

# A sixteenth of the disk, and not more than the daemon's own default of 256 MiB.
reserve_bytes() { echo $(((disk_mib / 16 < 256 ? disk_mib / 16 : 256) * 1024 * 1024)); }

# install_daemon ARCH STAGE: as it would ship, in the form that can be made. Afterwards "$form" is it, and "$why" says
# why it is not the other one.
install_daemon() {
  local arch=$1 stage=$2 code=0 log=$tools/log/image.log
  mkdir -p "$tools/log"
  # A process of its own: what fails in it is to be told from what is missing.
  "$root/build.sh" compile "$arch" 2>"$log" || code=$?
  if [ "$code" -eq 0 ]; then
    form=compiled why="a denort is at hand"
    install_form=compiled install_into "$stage"
  elif [ "$code" -eq 2 ] && [ -z "${DENORT_BIN:-}" ]; then
    form=bundle why=$(tail -n 1 "$log" | sed 's/^build\.sh: //')
    install_into "$stage"
  else
    cat "$log" >&2
    exit "$code"
  fi
}

# make_root ARCH STAGE: everything of the root file system.
make_root() {
  local arch=$1 stage=$2 debs=$tools/image/$1/unpacked applet package directory from
  mkdir -p "$stage"/{bin,sbin,dev,proc,sys,run,root,mnt,tmp,etc,usr/bin,usr/sbin,usr/share/udhcpc,var/tmp,var/lib,home/user}
  for package in libc6 libgcc-s1; do
    for directory in lib lib64; do
      from=$(lib_of "$debs/$package" "$directory")
      [ -z "$from" ] || cp -a "$from" "$stage/"
    done
  done
  for package in kernel busybox-static bsdutils libc6 libgcc-s1 gcc-base; do cp -a "$debs/$package/usr/share/doc" "$stage/usr/share/"; done
  cp "$(busybox_of "$arch")" "$stage/bin/"
  cp "$debs/bsdutils/usr/bin/script" "$stage/usr/bin/"
  while read -r applet; do
    [ -e "$stage/bin/$applet" ] || ln -s busybox "$stage/bin/$applet"
  done < <("$(busybox_of "$(host_arch)")" --list)
  install -m 0755 image/init "$stage/sbin/init"
  install -m 0755 image/udhcpc.script "$stage/usr/share/udhcpc/default.script"
  # Installed, the daemon would have the settings of a package.
  { cat image/guestd.env; echo "GUESTD_DISK_RESERVE_BYTES=$(reserve_bytes)"; } >"$stage/etc/guestd.env"
  echo guest >"$stage/etc/hostname"
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$stage/etc/hosts"
  printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >"$stage/etc/passwd"
  printf 'root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n' >"$stage/etc/group"
  # One machine id for every guest of the image: what identity repair is there to change.
  printf '%032d\n' 1 >"$stage/etc/machine-id"
  chmod 1777 "$stage/tmp" "$stage/var/tmp"
  chmod 0700 "$stage/root"
  install_daemon "$arch" "$stage"
}

# make_disk STAGE OUT: an ext4 file system, sparse, whose files belong to root though their maker may not be.
make_disk() {
  local stage=$1 out=$2 as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(fakeroot)
  rm -f "$out"
  truncate -s "${disk_mib}M" "$out"
  # shellcheck disable=SC2016 # the inner shell's
  quietly "$tools/log/mke2fs.log" "${as_root[@]}" sh -e -c '
    chown -R 0:0 "$1"
    chown 1000:1000 "$1/home/user"
    exec mke2fs -q -F -t ext4 -L guest -m 0 -E lazy_itable_init=1,lazy_journal_init=1 -d "$1" "$2"' - "$stage" "$out"
}

# Of earlier builds, which were killed, nothing stays; what this one leaves its end takes away, however it comes. The
# names are its own: a trap sees the locals of whichever function it comes in.
build_image() (
  arch=$1 out=$root/dist/image/$1 home=$tools/image/$1
  unfinished=$out/rootfs.ext4.new
  rm -rf "$home"/stage.* "$unfinished"
  built=$(mktemp -d "$home/stage.XXXXXX")
  trap 'rm -rf "$built" "$unfinished"' EXIT
  trap 'exit 130' INT TERM
  mkdir -p "$out"
  begin_stamp "image-$arch"
  say "making the guest image for $arch"
  make_initramfs "$arch" "$built/initramfs" "$out/initrd.gz"
  make_root "$arch" "$built/root"
  make_disk "$built/root" "$unfinished"
  cp "$home"/unpacked/kernel/boot/vmlinuz-* "$out/vmlinuz"
  mv "$unfinished" "$out/rootfs.ext4"
  cp "$home/packages" "$out/packages"
  echo "$form" >"$out/form"
  echo "$disk_mib" >"$out/disk_mib"
  end_stamp "image-$arch"
  say "dist/image/$arch holds the daemon as $(form_words "$form"): $why"
  say "$(weights "$out")"
)

form_words() {
  case $1 in
    compiled) echo "one compiled file" ;;
    *) echo "deno, bundle and library" ;;
  esac
}

weights() {
  local file
  for file in vmlinuz initrd.gz rootfs.ext4; do
    printf '%s %s MiB ' "$file" "$(du -m "$1/$file" | cut -f1)"
  done
}

# image_fresh ARCH: there is one of this size and form, and nothing that it is made of is newer.
image_fresh() {
  local out=$root/dist/image/$1
  # Somebody may have found a denort since.
  [ -z "${DENORT_BIN:-}" ] || grep -qsx compiled "$out/form" || return 1
  grep -qsx "$disk_mib" "$out/disk_mib" || return 1
  fresh "image-$1" "$out/rootfs.ext4" image scripts deno.json "$bundle" "$ctl" "$(deno_for "$1")" "$(library_for "$1")" "$tools/image/$1/unpacked"
}

# Under the lock of setup, whose work is done by then: two at once would share their directories.
ensure_image() {
  check_disk_size
  usable_denort "$1"
  need_tools
  mkdir -p "$tools/image"
  (
    ! command -v flock >/dev/null || flock 9
    fetch_packages "$1"
    fetch_own_busybox
    ensure_parts "$1"
    if image_fresh "$1"; then
      say "dist/image/$1 is up to date, with the daemon as $(form_words "$(cat "dist/image/$1/form")")"
    else
      build_image "$1"
    fi
  ) 9>"$tools/image/lock"
}

command_image() {
  local arch="" argument again=no guest=busybox
  for argument in "$@"; do
    case $argument in
      --fresh) again=yes ;;
      --debian) guest=debian ;;
      *) arch=$argument; known_arch "$arch" ;;
    esac
  done
  arch=${arch:-$(host_arch)}
  set_up
  [ "$again" = no ] || rm -rf "$tools/image/$arch/unpacked/complete" "$tools/roots/guest-$debian_suite"
  case $guest in
    debian) ensure_debian "$arch" ;;
    *) ensure_image "$arch" ;;
  esac
}
