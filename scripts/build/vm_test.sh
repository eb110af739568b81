# vm-test [amd64|arm64]: the image under test, with what takes too long for every test run. The last line is
# 'N passed, N failed'.
source "$root/scripts/build/test.sh"

command_vm_test() {
  local arch=${1:-$(host_arch)}
  known_arch "$arch"
  set_up
  need_qemu "$arch"
  ensure_image "$arch"
  no_color
  vm_suite "${arch}_checks"
  [ "$arch" != amd64 ] || vm_suite memory_checks
  closing_line
}
