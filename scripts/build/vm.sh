# The checks in a virtual machine: what they need and how they are run. Needs test.sh's suite.
source "$root/scripts/build/image.sh"

qemu_program() { case $1 in amd64) echo qemu-system-x86_64 ;; arm64) echo qemu-system-aarch64 ;; esac; }
qemu_package() { case $1 in amd64) echo qemu-system-x86 ;; arm64) echo qemu-system-arm ;; esac; }

need_qemu() { need_commands "a virtual machine for $1 needs QEMU" "$(qemu_program "$1"):$(qemu_package "$1")"; }

vhost_vsock_version=0.3.0

# The host's end of a guest's vsock, as Firecracker has it built in.
ensure_vhost_vsock() {
  local place=$tools/vhost-device-vsock
  ! grep -qsxF "$vhost_vsock_version" "$place/version" || return 0
  ensure_cargo
  say "building vhost-device-vsock $vhost_vsock_version (some three minutes)"
  quietly "$tools/log/vhost-device-vsock.log" "$cargo" install --quiet --locked --version "$vhost_vsock_version" \
    --target-dir "$tools/vhost-target" --root "$place" vhost-device-vsock
  rm -rf "$tools/vhost-target"
  echo "$vhost_vsock_version" >"$place/version"
}

# vm_suite FILE: these checks, in their order.
vm_suite() { suite "vm-$1" deno_tests "tests/vm/$1.ts"; }

# guest_suites ARCH: the image and its guest under test.
guest_suites() {
  need_qemu "$1"
  ensure_image "$1"
  vm_suite "${1}_checks"
}
