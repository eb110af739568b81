#!/usr/bin/env bash
# The one entry for everything: ./build.sh COMMAND. Idempotent, and quick when nothing has changed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
tools=$root/.tools
caller_directory=$PWD
cd "$root"

# One row a command: its name, the file under scripts/build/ that defines command_NAME, its arguments, what it does.
commands=(
  "setup|setup||Deno, the native library and the bundle, whatever of them is missing or out of date"
  "run|run|[--version]|set up, then become the daemon, on 127.0.0.1:9000 unless GUESTD_LISTEN says otherwise"
  "demo|run||a guided tour of a real daemon on a free port, which then serves until interrupted"
  "test|test|[FILE...]|set up, then every quick test, Rust and TypeScript; with arguments: deno test with them, alone"
  "ci|ci||check, test, properties for longer, a short soak and fuzz-api, docs --check, and the guest image in QEMU"
  "bench|bench|[--quick] [--only PART] [--write]|measure the daemon against the kernel and OpenSSH; PART is files, tunnel or words of a line of the table, --write puts that into docs/"
  "soak|bench|[COUNT]|20,000 commands of mixed kinds, or COUNT, from 32 clients, every output and exit compared"
  "faults|faults|[--write]|makes the daemon's system calls fail, one by one; needs root; --write puts the table into docs/"
  "fuzz-api|fuzz_api|[COUNT]|20,000 requests, or COUNT, of Schemathesis to a daemon that they may break; needs root"
  "coverage|coverage|[--one REQUEST]|which lines the tests execute; for one REQUEST, start or upload: which files it takes"
  "check|check||format, lint, types, documentation, clippy, the OpenAPI document; changes nothing"
  "client|client||the client library as an npm package, in dist/npm; needs the npm registry the first time"
  "docs|docs|[--check]|the guides and the API reference as pages in dist/docs; --check looks at them in Chromium; needs npm the first time"
  "compile|compile|[ARCH [FILE]]|the daemon as one file, dist/guestd or FILE, for amd64 or arm64; needs Deno's host or DENORT_BIN"
  "install|install|[--downgrade] DIRECTORY|the daemon into a root directory that it can run in, whole or not at all"
  "package|package|[ARCH]|.deb, .rpm and .tar.gz with sums and SBOM in dist/packages, for amd64 or arm64; needs PyPI the first time"
  "package-test|package_test|[ARCH]|makes the packages twice, and installs, drives and removes them in roots of Debian; as root installs what that needs"
  "image|image|[ARCH] [--debian] [--fresh]|a guest's kernel and disk in dist/image/, for amd64 or arm64; --debian one with systemd, too; --fresh takes Debian's updates"
  "dockerfile|dockerfile||builds image/Dockerfile without a container engine and drives its guest; needs root"
  "vm-test|vm_test|[ARCH] [--debian OR --vsock]|boots the image, for amd64 or arm64, in QEMU and drives it over HTTP, with --vsock one without a network; as root installs what that needs"
)

source "$root/scripts/build/say.sh"

command_help() {
  echo "usage: ./build.sh COMMAND [ARGUMENT...]"
  echo
  local row name file takes does
  for row in "${commands[@]}"; do
    IFS='|' read -r name file takes does <<<"$row"
    printf '  %-12s %s\n' "$name" "$does"
  done
  printf '  %-12s %s\n' help "this text; COMMAND --help says what a command takes"
}

# help_of ROW: one command's help. The settings are the daemon's, which may not be built yet.
help_of() {
  local name file takes does
  IFS='|' read -r name file takes does <<<"$1"
  printf 'usage: ./build.sh %s%s\n\n%s\n' "$name" "${takes:+ $takes}" "$does"
  [ "$name" = run ] || return 0
  printf '\nSettings come from the environment, here with the defaults of a daemon in an image:\n\n'
  # shellcheck disable=SC2016
  sed -nE 's/^\| `(GUESTD_[A-Z_]+)` \| `?([^`]*)`? \| (.*) \|$/  \1=\2\n      \3/p' docs/configuration.md
}

main() {
  local wanted=${1:-help}
  [ $# -eq 0 ] || shift
  case $wanted in
    help | -h | --help) command_help; return ;;
  esac
  local row name file
  for row in "${commands[@]}"; do
    IFS='|' read -r name file _ <<<"$row"
    [ "$name" = "$wanted" ] || continue
    case " $* " in
      *" -h "* | *" --help "*) help_of "$row"; return ;;
    esac
    source "$root/scripts/build/$file.sh"
    "command_${name//-/_}" "$@"
    return
  done
  command_help >&2
  die "there is no command '$wanted'"
}

main "$@"
