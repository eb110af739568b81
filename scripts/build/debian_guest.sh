# image --debian: a small Debian as the guest, with systemd as PID 1 and the daemon from its .deb. It has the kernel and the
# initramfs of the other image, and a disk of its own beside that one. Needs image.sh and package.sh.

debian_suite=trixie
debian_disk() { echo "$root/dist/image/$1/debian.ext4"; }

# The root without the daemon, made once, and again with --fresh.
debian_base() {
  local tree=$tools/roots/guest-$debian_suite
  [ ! -d "$tree" ] || return 0
  say "making a small Debian $debian_suite (some minutes)"
  rm -rf "$tree.new"
  mkdir -p "$tools/roots"
  quietly "$tools/log/debootstrap.log" debootstrap --variant=minbase --include=systemd-sysv,udev,dbus,iproute2 \
    "$debian_suite" "$tree.new" || { rm -rf "$tree.new"; die "debootstrap has failed to make a Debian $debian_suite"; }
  # Documents but for the licences, and what apt could fetch again.
  rm -rf "$tree.new"/var/cache/apt/* "$tree.new"/var/lib/apt/lists/* "$tree.new"/usr/share/{man,locale}/*
  mv "$tree.new" "$tree"
}

# What somebody does who bakes an image.
furnish_debian() {
  local stage=$1 deb=$2
  cp "$deb" "$stage/root/guestd.deb"
  quietly "$tools/log/debian_guest.log" chroot "$stage" sh -ec '
    dpkg --install /root/guestd.deb
    rm /root/guestd.deb
    systemctl enable guestd systemd-networkd
    systemctl mask getty.target
    useradd --create-home --uid 1000 user'
  { cat image/guestd.env; echo "GUESTD_DISK_RESERVE_BYTES=$(reserve_bytes)"; } >"$stage/etc/guestd.env"
  # Its log is on the console, as the other image's is.
  mkdir -p "$stage/etc/systemd/system/guestd.service.d"
  printf '[Service]\nStandardError=file:/dev/console\n' >"$stage/etc/systemd/system/guestd.service.d/console.conf"
  printf '[Match]\nType=ether\n[Network]\nDHCP=ipv4\n' >"$stage/etc/systemd/network/ether.network"
  printf '/dev/vda / ext4 noatime 0 1\n' >"$stage/etc/fstab"
  echo guest >"$stage/etc/hostname"
  # The first boot does not look for what an update of Debian would have changed.
  touch "$stage/etc/.updated" "$stage/var/.updated"
  # Every clone gets one of its own at its first boot.
  : >"$stage/etc/machine-id"
}

# In a subshell, whose end takes its files with it.
build_debian() (
  arch=$1 deb=$2
  unfinished=$(debian_disk "$arch").new
  built=$(mktemp -d "$tools/image/debian.XXXXXX")
  trap 'rm -rf "$built" "$unfinished"' EXIT
  trap 'exit 130' INT TERM
  begin_stamp "debian-$arch"
  say "making the Debian guest for $arch"
  cp -a "$tools/roots/guest-$debian_suite/." "$built/"
  furnish_debian "$built" "$deb"
  rm -f "$unfinished"
  truncate -s "${disk_mib}M" "$unfinished"
  quietly "$tools/log/mke2fs.log" mke2fs -q -F -t ext4 -L guest -m 0 -E lazy_itable_init=1,lazy_journal_init=1 -d "$built" "$unfinished" ||
    die "mke2fs has failed to make the disk of the Debian guest"
  mv "$unfinished" "$(debian_disk "$arch")"
  end_stamp "debian-$arch"
  say "dist/image/$arch/debian.ext4 takes $(du -m "$(debian_disk "$arch")" | cut -f1) MiB; GUESTD_VM_DISK=$(debian_disk "$arch") image/boot.sh $arch boots it"
)

# ensure_debian ARCH: the disk is up to date afterwards, and so is the image whose kernel it boots.
ensure_debian() {
  local arch=$1 deb
  [ "$(id -u)" -eq 0 ] || die "making a Debian guest takes root"
  own_arch "$arch" || die "a Debian guest can be made for this machine's processor alone"
  need_commands "the Debian guest needs a tool" debootstrap:debootstrap
  ensure_image "$arch"
  debian_base
  package_for "$arch"
  deb=$packages/guestd_$(version)-1_$arch.deb
  if cmp -s "$deb" "$tools/image/debian-$arch.deb" && fresh "debian-$arch" "$(debian_disk "$arch")" image scripts; then return; fi
  build_debian "$arch" "$deb"
  cp "$deb" "$tools/image/debian-$arch.deb"
}
