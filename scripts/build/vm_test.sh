# vm-test [amd64|arm64]: the image under test. The last line is 'N passed, N failed'.
source "$root/scripts/build/test.sh"
source "$root/scripts/build/vm.sh"

command_vm_test() {
  local arch=${1:-$(host_arch)}
  known_arch "$arch"
  set_up
  no_color
  SECONDS=0
  guest_suites "$arch"
  # A guest under load takes long, and is for one architecture.
  [ "$arch" != amd64 ] || vm_suite memory_checks
  closing_line
}
