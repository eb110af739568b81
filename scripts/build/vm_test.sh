# vm-test [amd64|arm64] [--debian | --vsock]: the image under test. The last line is 'N passed, N failed'.
source "$root/scripts/build/test.sh"
source "$root/scripts/build/vm.sh"

command_vm_test() {
  local arch="" argument guest=busybox
  for argument in "$@"; do
    case $argument in
      --debian) guest=debian ;;
      --vsock) guest=vsock ;;
      *) arch=$argument; known_arch "$arch" ;;
    esac
  done
  arch=${arch:-$(host_arch)}
  set_up
  no_color
  SECONDS=0
  if [ "$guest" = debian ]; then
    need_qemu "$arch"
    ensure_debian "$arch"
    vm_suite debian_checks
    closing_line
    return
  fi
  if [ "$guest" = vsock ]; then
    need_qemu "$arch"
    ensure_vhost_vsock
    ensure_image "$arch"
    GUESTD_VM_ARCH=$arch vm_suite vsock_checks
    closing_line
    return
  fi
  guest_suites "$arch"
  # A guest under load takes long, and is for one architecture.
  [ "$arch" != amd64 ] || vm_suite memory_checks
  closing_line
}
