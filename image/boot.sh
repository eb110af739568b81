#!/usr/bin/env bash
# Boots the image that ./build.sh image made, in QEMU, without KVM: image/boot.sh [amd64|arm64] [QEMU ARGUMENT...]
# The guest's console is on stdin and stdout, its port 9000 on GUESTD_VM_PORT (9000) of 127.0.0.1; with GUESTD_VM_PORT=none
# it has no network device.
#   GUESTD_VM_VSOCK     the vhost-user socket of a vhost-device-vsock that runs: the guest has a vsock then
#   GUESTD_VM_DISK      a disk to write to; without one the image's own, unchanged afterwards
#   GUESTD_VM_MEMORY    memory in MiB (512)
#   GUESTD_VM_APPEND    more words for the kernel's command line, such as guestd.init=child
case " $* " in
  *" -h "* | *" --help "*) sed -n '2,/^[^#]/s/^# //p' "$0"; exit ;;
esac
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
arch=${1:-amd64}
[ $# -eq 0 ] || shift

case $arch in
  # q35, not microvm: only it can be frozen to a file and restored.
  amd64) machine=(qemu-system-x86_64 -M q35 -cpu max) console=ttyS0 ;;
  arm64) machine=(qemu-system-aarch64 -M virt -cpu "max,pauth-impdef=on") console=ttyAMA0 ;;
  *) echo "boot.sh: there is no image for '$arch': amd64 or arm64" >&2; exit 2 ;;
esac
image=$here/dist/image/$arch
[ -e "$image/rootfs.ext4" ] || { echo "boot.sh: there is no image yet: ./build.sh image $arch" >&2; exit 2; }
command -v "${machine[0]}" >/dev/null || { echo "boot.sh: ${machine[0]} is needed: install QEMU" >&2; exit 2; }

# QEMU ends a value at a comma, unless there are two.
disk=${GUESTD_VM_DISK:-$image/rootfs.ext4}
disk=file=${disk//,/,,},format=raw,cache=unsafe
[ -n "${GUESTD_VM_DISK:-}" ] || disk+=,snapshot=on
memory=${GUESTD_VM_MEMORY:-512}
network=(-netdev "user,id=net,hostfwd=tcp:127.0.0.1:${GUESTD_VM_PORT:-9000}-:9000" -device "virtio-net-pci,netdev=net,romfile=")
[ "${GUESTD_VM_PORT:-}" != none ] || network=()
vsock=()
if [ -n "${GUESTD_VM_VSOCK:-}" ]; then
  # The other process has to see the guest's memory. The device has a port of its own, to be pulled out of: QEMU freezes
  # no machine that has it, so that a frozen one is restored without.
  vsock=(-machine "memory-backend=memory" -object "memory-backend-memfd,id=memory,size=${memory}M,share=on"
    -chardev "socket,id=vsock,path=${GUESTD_VM_VSOCK//,/,,}" -device "pcie-root-port,id=vsock-port")
  case " $* " in
    *" -incoming "*) ;;
    *) vsock+=(-device "vhost-user-vsock-pci,id=vsock,chardev=vsock,bus=vsock-port") ;;
  esac
fi
# The machine dies with whoever started it, and a guest that panics ends it instead of booting again.
exec setpriv --pdeathsig KILL "${machine[@]}" -accel tcg,thread=multi -smp 2 -m "$memory" \
  -nodefaults -no-user-config -no-reboot -display none -serial stdio \
  -kernel "$image/vmlinuz" -initrd "$image/initrd.gz" \
  -append "console=$console quiet panic=-1 ${GUESTD_VM_APPEND:-}" \
  -drive "if=none,id=root,$disk" -device virtio-blk-pci,drive=root \
  "${network[@]}" "${vsock[@]}" "$@"
