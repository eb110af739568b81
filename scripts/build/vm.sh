# The checks in a virtual machine: what they need and how they are run. Needs test.sh's suite.
source "$root/scripts/build/image.sh"

qemu_program() { case $1 in amd64) echo qemu-system-x86_64 ;; arm64) echo qemu-system-aarch64 ;; esac; }
qemu_package() { case $1 in amd64) echo qemu-system-x86 ;; arm64) echo qemu-system-arm ;; esac; }

need_qemu() { need_commands "a virtual machine for $1 needs QEMU" "$(qemu_program "$1"):$(qemu_package "$1")"; }

# vm_suite FILE: these checks, in their order.
vm_suite() { suite "vm-$1" "$deno" test --frozen --allow-all "tests/vm/$1.ts"; }

# The part of the test run: amd64, on such a machine, where QEMU and all that the image is made of are there.
vm_part_of_test() {
  local missing code=0
  if missing=$(missing_for_vm); then
    say "skipping the checks in a virtual machine: $missing"
    return
  fi
  say "testing the guest image in a virtual machine"
  "$root/build.sh" image amd64 || code=$?
  if [ "$code" -ne 0 ]; then
    # Debian's packages out of reach are no failure of the daemon's, but CI has to see it; a build that fails is one.
    if [ "$code" -eq 2 ] && [ -z "${CI:-}" ]; then
      say "skipping the checks in a virtual machine: there is no image"
    else
      failed=$((failed + 1))
    fi
    return
  fi
  vm_suite amd64_checks
}

# The first thing that is missing; fails when nothing is.
missing_for_vm() {
  local program
  [ "$(uname -m)" = x86_64 ] || { echo "they are run on x86_64 (elsewhere: ./build.sh vm-test)"; return; }
  for program in qemu-system-x86_64 setpriv apt-get dpkg-deb cpio mke2fs; do
    on_path "$program" || { echo "there is no $program (./build.sh vm-test installs it as root)"; return; }
  done
  return 1
}
