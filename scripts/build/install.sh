# install [--downgrade] DIRECTORY: the daemon into a root directory, in the bundle's form.
source "$root/scripts/build/setup.sh"
source "$root/scripts/build/compile.sh"
source "$root/scripts/build/portable.sh"
source "$root/scripts/build/stage.sh"

# root_arch DIRECTORY: what its C library is for; this machine's where it has none, which install.sh will say.
root_arch() {
  local library arch
  for library in "$1"/{usr/,}lib/*-linux-gnu/libc.so.6 "$1"/{usr/,}{lib64,lib}/libc.so.6; do
    arch=$(elf_arch "$library")
    if [ -n "$arch" ]; then echo "$arch"; return; fi
  done
  host_arch
}

# The library of this machine where that is new enough for the root, or the root tells of no C library; else the portable one.
# Where that cannot be made, install.sh says what is missing.
library_for_root() {
  local arch=$1 directory=$2 library own there
  library=$(library_for "$arch")
  for own in "$directory"/{usr/,}lib/*-linux-gnu/libc.so.6 "$directory"/{usr/,}{lib64,lib}/libc.so.6; do
    [ -f "$own" ] || continue
    there=$(tr -c '[:print:]' '\n' <"$own" | sed -n 's/.* release version \([0-9][0-9.]*[0-9]\).*/\1/p' | head -n 1)
    if [ "$(printf '%s\n' "$there" "$(glibc_of "$library")" | sort -V | tail -n 1)" != "$there" ] && ensure_portable "$arch" >&2; then
      library=$(portable_library "$arch")
    fi
    break
  done
  echo "$library"
}

# install_into DIRECTORY [OPTION...]: in a subshell, whose end takes its files with it.
install_into() (
  directory=$1 arch=$(root_arch "$1")
  shift
  ensure_parts "$arch"
  library=$(library_for_root "$arch" "$directory")
  mkdir -p "$tools"
  staged=$(mktemp -d "$tools/stage.XXXXXX")
  trap 'rm -rf "$staged"' EXIT
  trap 'exit 130' INT TERM
  stage "$arch" "$staged" "${install_form:-bundle}" "$library"
  "$staged/install.sh" "$@" "$directory"
)

command_install() {
  local options=()
  while [[ ${1:-} == -* ]]; do
    options+=("$1")
    shift
  done
  [ $# -eq 1 ] || die "install takes a directory: ./build.sh install DIRECTORY"
  local directory=$1
  [[ $directory == /* ]] || directory=$caller_directory/$directory
  set_up
  install_into "$directory" "${options[@]}"
}
