# The daemon's parts for the architecture of a guest: deno, native library, compiled file.
# Needs setup.sh and debian.sh.

# rust_target ARCH, npm_arch ARCH: what others call an architecture.
rust_target() { case $1 in amd64) echo x86_64-unknown-linux-gnu ;; arm64) echo aarch64-unknown-linux-gnu ;; esac; }
npm_arch() { case $1 in amd64) echo x64 ;; arm64) echo arm64 ;; esac; }

library_for() {
  if [ "$1" = "$(host_arch)" ]; then echo "$library"; else echo "$root/dist/$1/libguestd.so"; fi
}

compiled_file() {
  if [ "$1" = "$(host_arch)" ]; then echo "$root/dist/guestd"; else echo "$root/dist/$1/guestd"; fi
}

deno_for() {
  if [ "$1" = "$(host_arch)" ]; then readlink -f "$deno"
  else echo "$tools/image/deno/node_modules/@deno/linux-$(npm_arch "$1")-glibc/deno"; fi
}

compile_for() { return 1; }
ensure_target() { :; }
