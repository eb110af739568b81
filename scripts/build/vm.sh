# The checks in a virtual machine: what they need and how they are run. Needs test.sh's suite.
source "$root/scripts/build/image.sh"

qemu_program() { case $1 in amd64) echo qemu-system-x86_64 ;; arm64) echo qemu-system-aarch64 ;; esac; }
qemu_package() { case $1 in amd64) echo qemu-system-x86 ;; arm64) echo qemu-system-arm ;; esac; }

need_qemu() { need_commands "a virtual machine for $1 needs QEMU" "$(qemu_program "$1"):$(qemu_package "$1")"; }

# vm_suite FILE: these checks, in their order.
vm_suite() { suite "vm-$1" deno_tests "tests/vm/$1.ts"; }

# guest_suites ARCH: the image and its guest under test.
guest_suites() {
  need_qemu "$1"
  ensure_image "$1"
  vm_suite "${1}_checks"
}
