#!/usr/bin/env bash
# The one entry for everything: ./build.sh COMMAND. Idempotent, and quick when nothing has changed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
tools=$root/.tools
caller_directory=$PWD
cd "$root"

# One row a command: its name, the file under scripts/build/ that defines command_NAME, what it does.
commands=(
  "setup|setup|Deno, the native library and the bundle, whatever of them is missing or out of date"
  "run|run|set up, then become the daemon, on 127.0.0.1:9000 unless GUESTD_LISTEN says otherwise"
  "demo|run|a guided tour of a real daemon on a free port, which then serves until interrupted"
  "test|test|set up, then every quick test, Rust and TypeScript; with arguments: deno test with them, alone"
  "ci|ci|check, test, properties for longer, a short soak, and the guest image in QEMU"
  "bench|bench|measure the daemon against the kernel and OpenSSH; --quick, --only PART, --write into docs/"
  "soak|bench|20,000 commands of mixed kinds from 32 clients, every output and exit compared"
  "coverage|coverage|which lines the tests execute; with --one start or upload: which files one request takes"
  "check|check|format, lint, types, documentation, clippy; changes nothing"
  "compile|compile|the daemon as one file, dist/guestd; needs Deno's host or DENORT_BIN"
  "image|image|a guest's kernel and disk in dist/image/, for amd64 or arm64"
  "dockerfile|dockerfile|builds image/Dockerfile without a container engine and drives its guest; needs root"
  "vm-test|vm_test|boots the image in QEMU and drives it over HTTP; as root installs what that needs"
)

source "$root/scripts/build/say.sh"

command_help() {
  echo "usage: ./build.sh COMMAND [ARGUMENT...]"
  echo
  local row name file does
  for row in "${commands[@]}"; do
    IFS='|' read -r name file does <<<"$row"
    printf '  %-10s %s\n' "$name" "$does"
  done
  printf '  %-10s %s\n' help "this text"
}

main() {
  local wanted=${1:-help}
  [ $# -eq 0 ] || shift
  case $wanted in
    help | -h | --help) command_help; return ;;
  esac
  local row name file does
  for row in "${commands[@]}"; do
    IFS='|' read -r name file does <<<"$row"
    if [ "$name" = "$wanted" ]; then
      source "$root/scripts/build/$file.sh"
      "command_${name//-/_}" "$@"
      return
    fi
  done
  command_help >&2
  die "there is no command '$wanted'"
}

main "$@"
