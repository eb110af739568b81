# package-test: the packages are built, built again elsewhere, and installed, driven and removed in roots of Debian. The last
# line is 'N passed, N failed'.
source "$root/scripts/build/test.sh"
source "$root/scripts/build/package.sh"

# Debian's releases whose roots debootstrap makes here, the oldest first.
suites=(bullseye bookworm trixie)

# The root of a release, made once.
debian_root() {
  local suite=$1 tree=$tools/roots/$1
  [ ! -d "$tree" ] || return 0
  say "making a root of Debian $suite"
  rm -rf "$tree.new"
  mkdir -p "$tools/roots"
  if ! quietly "$tools/log/debootstrap.log" debootstrap --variant=minbase "$suite" "$tree.new"; then
    rm -rf "$tree.new"
    return 1
  fi
  mv "$tree.new" "$tree"
}

# The packages from a clone in another directory, whose tools are this checkout's, are the same to the byte.
same_elsewhere() (
  arch=$1
  other=$(mktemp -d "${TMPDIR:-/var/tmp}/guestd-elsewhere-XXXXXX")
  trap 'rm -rf "$other"' EXIT
  trap 'exit 130' INT TERM
  git clone --quiet --no-hardlinks "$root" "$other/deeper/checkout"
  cd "$other/deeper/checkout"
  mkdir .tools
  for tool in "$tools"/{bin,pypi,npm,deno_dir,zig-*,nfpm-*,deno-"$arch"-*}; do
    [ ! -d "$tool" ] || case $tool in *.new | *-cache) ;; *) cp -a "$tool" .tools/ ;; esac
  done
  ./build.sh package "$arch" >&2
  cd dist/packages
  failed=0
  for file in guestd*; do
    cmp "$file" "$packages/$file" || failed=$((failed + 1))
  done
  # The line that count reads.
  if [ "$failed" -eq 0 ]; then echo "ok | 1 passed | 0 failed"; else echo "FAILED | 0 passed | 1 failed"; return 1; fi
)

# Mounts are made in a namespace that ends with the tests.
in_root() {
  GUESTD_TEST_ROOT=$tools/roots/$1 GUESTD_TEST_PACKAGES=$packages GUESTD_TEST_LAUNCHER=/usr/bin/guestd \
    unshare --mount "$deno" test --frozen --allow-all tests/packages/root_checks.ts
}

command_package_test() {
  local suite arch
  arch=$(host_arch)
  [ "$(id -u)" -eq 0 ] || die "installing packages in roots of Debian takes root"
  set_up
  need_commands "roots of Debian and what is done in them need tools" debootstrap:debootstrap rpm:rpm unshare:util-linux readelf:binutils
  no_color
  SECONDS=0
  rm -rf "$packages"
  "$root/build.sh" package "$arch"
  GUESTD_TEST_PACKAGES=$packages suite packages deno_tests tests/packages/archive_checks.ts
  if [ -n "$(git status --porcelain)" ]; then
    say "the checkout has changes that no clone has: what another directory would make of them is not compared"
  else
    say "building the packages once more, in another directory (some minutes)"
    suite elsewhere same_elsewhere "$arch"
  fi
  for suite in "${suites[@]}"; do
    if debian_root "$suite"; then
      suite "root-$suite" in_root "$suite"
    else
      say "there is no root of Debian $suite to be had from this machine's mirror: skipped"
    fi
  done
  closing_line
}
