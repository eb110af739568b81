# image [amd64|arm64]: a kernel, an initramfs and a root file system in dist/image/ARCH, from Debian's packages.
source "$root/scripts/build/compile.sh"

disk_mib=${GUESTD_IMAGE_DISK_MIB:-2048}
# A sixteenth of the disk, and not more than the daemon's own default of 256 MiB.
reserve_mib=$((disk_mib / 16 < 256 ? disk_mib / 16 : 256))
drivers=(virtio_pci virtio_mmio virtio_blk virtio_net virtio_rng)

# module_order MODULES_DIRECTORY NAME...: the files of these modules, each after what it depends on.
module_order() {
  local modules=$1 name file depends
  shift
  for name in "$@"; do
    file=$(find "$modules" -name "$name.ko" -o -name "${name//_/-}.ko" | head -n 1)
    # What is no file is built into the kernel.
    [ -n "$file" ] || continue
    depends=$(tr '\0' '\n' <"$file" | sed -n 's/^depends=//p' | tr , ' ')
    # shellcheck disable=SC2086
    module_order "$modules" $depends
    echo "$file"
  done | awk '!seen[$0]++'
}

# make_initramfs ARCH STAGE OUT
make_initramfs() {
  local debs=$tools/image/$1/unpacked stage=$2 out=$3 file
  mkdir -p "$stage"/{bin,dev,proc,root,modules}
  cp "$debs/busybox-static/bin/busybox" "$stage/bin/"
  install -m 0755 image/initramfs_init "$stage/init"
  module_order "$debs/kernel/lib/modules" "${drivers[@]}" >"$stage/modules.list"
  while read -r file; do
    cp "$file" "$stage/modules/"
    basename "$file" >>"$stage/modules/order"
  done <"$stage/modules.list"
  rm "$stage/modules.list"
  (cd "$stage" && find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) | gzip -n -6 >"$out"
}

# install_daemon ARCH STAGE: as it would ship, in the form that can be made. Afterwards "$form" is it.
install_daemon() {
  local arch=$1 stage=$2
  # A process of its own: what fails in it is to end it.
  if "$root/build.sh" compile "$arch" 2>"$tools/log/image.log"; then
    form=compiled
    image/install.sh "$stage" "$(compiled_file "$arch")"
  else
    form=bundle
    image/install.sh "$stage" "$(deno_for "$arch")" "$bundle" "$(library_for "$arch")"
  fi
}

# make_root ARCH STAGE: everything of the root file system.
make_root() {
  local arch=$1 stage=$2 debs=$tools/image/$1/unpacked applet
  mkdir -p "$stage"/{bin,sbin,dev,proc,sys,run,root,mnt,tmp,etc,usr/bin,usr/sbin,usr/share/udhcpc,var/tmp,var/lib,home/user}
  cp -a "$debs/libc6/lib" "$stage/"
  [ ! -d "$debs/libc6/lib64" ] || cp -a "$debs/libc6/lib64" "$stage/"
  cp -a "$debs/libgcc-s1/lib" "$stage/"
  cp "$debs/busybox-static/bin/busybox" "$stage/bin/"
  while read -r applet; do
    [ -e "$stage/bin/$applet" ] || ln -s busybox "$stage/bin/$applet"
  done < <("$tools/image/$(host_arch)/unpacked/busybox-static/bin/busybox" --list)
  install -m 0755 image/init "$stage/sbin/init"
  install -m 0755 image/udhcpc.script "$stage/usr/share/udhcpc/default.script"
  { cat image/guestd.env; echo "GUESTD_DISK_RESERVE_BYTES=$((reserve_mib * 1024 * 1024))"; } >"$stage/etc/guestd.env"
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

build_image() {
  local arch=$1 out=$root/dist/image/$1 stage
  stage=$(mktemp -d "$tools/image/$arch/stage.XXXXXX")
  mkdir -p "$out"
  begin_stamp "image-$arch"
  say "making the guest image for $arch"
  make_initramfs "$arch" "$stage/initramfs" "$out/initrd.gz"
  make_root "$arch" "$stage/root"
  make_disk "$stage/root" "$out/rootfs.ext4.new"
  cp "$tools/image/$arch"/unpacked/kernel/boot/vmlinuz-* "$out/vmlinuz"
  mv "$out/rootfs.ext4.new" "$out/rootfs.ext4"
  rm -rf "$stage"
  echo "$form" >"$out/form"
  end_stamp "image-$arch"
  say "dist/image/$arch holds the daemon as $(form_words "$form"); $(weights "$out")"
}

form_words() {
  case $1 in
    compiled) echo "one compiled file" ;;
    *) echo "deno, bundle and library, as it cannot be compiled here (./build.sh compile says why)" ;;
  esac
}

weights() {
  local file
  for file in vmlinuz initrd.gz rootfs.ext4; do
    printf '%s %s MiB ' "$file" "$(du -m "$1/$file" | cut -f1)"
  done
}

image_fresh() {
  # Somebody may have found a denort since.
  [ -z "${DENORT_BIN:-}" ] || grep -qsx compiled "$root/dist/image/$1/form" || return 1
  fresh "image-$1" "$root/dist/image/$1/rootfs.ext4" image scripts/guestd scripts/build/image.sh "$bundle" "$(library_for "$1")" "$tools/image/$1/unpacked"
}

# Under the lock of setup, whose work is done by then: two at once would share their directories.
ensure_image() {
  need_tools
  mkdir -p "$tools/image"
  (
    ! command -v flock >/dev/null || flock 9
    fetch_packages "$1"
    ensure_parts "$1"
    image_fresh "$1" || build_image "$1"
  ) 9>"$tools/image/lock"
}

command_image() {
  local arch=${1:-$(host_arch)}
  known_arch "$arch"
  set_up
  ensure_image "$arch"
}
