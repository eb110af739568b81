# The guest's first file system, in memory: busybox and the drivers that the root disk and the network need.

drivers=(virtio_pci virtio_mmio virtio_blk virtio_net virtio_rng vmw_vsock_virtio_transport)

# module_order MODULES_DIRECTORY NAME...: the files of these modules, each after what it depends on.
module_order() {
  local modules=$1 name file depends
  shift
  for name in "$@"; do
    file=$(find "$modules" -name "$name.ko" -o -name "${name//_/-}.ko" | head -n 1)
    if [ -z "$file" ]; then
      grep -rqsE --include=modules.builtin "/(${name}|${name//_/-})\.ko$" "$modules" ||
        die "the guest's kernel has no driver $name, neither as a module nor built in"
      continue
    fi
    depends=$(tr '\0' '\n' <"$file" | sed -n 's/^depends=//p' | tr , ' ')
    # shellcheck disable=SC2086
    module_order "$modules" $depends
    echo "$file"
  done | awk '!seen[$0]++'
}

# make_initramfs ARCH STAGE OUT
make_initramfs() {
  local stage=$2 out=$3 file modules
  modules=$(lib_of "$tools/image/$1/unpacked/kernel" lib)/modules
  mkdir -p "$stage"/{bin,dev,proc,root,modules}
  cp "$(busybox_of "$1")" "$stage/bin/"
  install -m 0755 image/initramfs_init "$stage/init"
  module_order "$modules" "${drivers[@]}" >"$stage/modules.list"
  while read -r file; do
    cp "$file" "$stage/modules/"
    basename "$file" >>"$stage/modules/order"
  done <"$stage/modules.list"
  rm "$stage/modules.list"
  (cd "$stage" && find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) | gzip -n -6 >"$out"
}
