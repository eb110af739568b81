# Finds or installs Deno: the pinned one, or the one that GUESTD_DENO names. Afterwards $tools/bin/deno is it.

deno_version=2.9.8
deno=$tools/bin/deno

# Everything that Deno caches stays in the checkout, so that an empty or read-only HOME will do.
export DENO_DIR=$tools/deno_dir
export DENO_NO_UPDATE_CHECK=1
# An error of Deno's is about the sources; where in Deno it arose helps nobody here.
unset RUST_BACKTRACE
# The machine's own certificates count too: many a company signs its registry mirror itself.
export DENO_TLS_CA_STORE=${DENO_TLS_CA_STORE:-system,mozilla}

# deno_matches BINARY: it runs, and is the pinned version or a later patch of it.
deno_matches() {
  local version
  version=$(NO_COLOR=1 "$1" --version 2>/dev/null) || return 1
  [[ $version =~ ^deno\ ${deno_version%.*}\.([0-9]+)\  ]] && [ "${BASH_REMATCH[1]}" -ge "${deno_version##*.}" ]
}

# link_deno TARGET: a relative target is seen from $tools/bin.
link_deno() {
  mkdir -p "$tools/bin"
  ln -sfn "$1" "$deno"
  wanted_deno >"$deno.wanted"
}

# What $deno has to be: the file that GUESTD_DENO names, whatever its version, or the pinned version.
wanted_deno() { if [ -n "${GUESTD_DENO:-}" ]; then realpath "$GUESTD_DENO"; else echo "$deno_version"; fi; }

# Costs no start of Deno, so that a build that is up to date stays quick.
deno_is_wanted() { [ -x "$deno" ] && [ "$(cat "$deno.wanted" 2>/dev/null)" = "$(wanted_deno)" ]; }

deno_from_npm() {
  local package=@deno/linux-$1-glibc
  command -v npm >/dev/null || return 1
  say "installing Deno $deno_version from npm's package $package (some 40 MB)"
  # Not with --prefix, which would hide npm's global configuration and with it the machine's registry settings.
  mkdir -p "$tools/npm"
  echo '{ "private": true }' >"$tools/npm/package.json"
  (cd "$tools/npm" && quietly "$tools/log/npm.log" npm install --cache "$tools/npm-cache" --no-save \
    --no-package-lock --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error \
    "$package@$deno_version") || return 1
  rm -rf "$tools/npm-cache"
  chmod +x "$tools/npm/node_modules/$package/deno"
  deno_matches "$tools/npm/node_modules/$package/deno" || return 1
  link_deno "../npm/node_modules/$package/deno"
}

# Afterwards "${pip[@]}" is a pip, if there is one.
find_pip() {
  if command -v pip3 >/dev/null; then pip=(pip3)
  elif command -v pip >/dev/null; then pip=(pip)
  elif python3 -m pip --version >/dev/null 2>&1; then pip=(python3 -m pip)
  else return 1; fi
}

deno_from_pypi() {
  local pip
  find_pip || return 1
  say "installing Deno $deno_version from PyPI's package deno (some 40 MB)"
  quietly "$tools/log/pip.log" "${pip[@]}" install --target "$tools/pypi" --upgrade --no-deps --no-cache-dir \
    --disable-pip-version-check --quiet "deno==$deno_version" || return 1
  deno_matches "$tools/pypi/bin/deno" || return 1
  link_deno ../pypi/bin/deno
}

ensure_deno() {
  if deno_is_wanted; then return; fi
  if [ -n "${GUESTD_DENO:-}" ]; then
    "$GUESTD_DENO" --version >/dev/null 2>&1 || die "GUESTD_DENO names no deno that runs: $GUESTD_DENO"
    link_deno "$(wanted_deno)"
    return
  fi
  [ "$(uname -s)" = Linux ] || die "guestd runs on Linux only, this is $(uname -s)"
  local arch on_path
  case $(uname -m) in
    x86_64) arch=x64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) die "Deno has no build for this processor ($(uname -m)): x86_64 or aarch64 is needed" ;;
  esac
  while read -r on_path; do
    if deno_matches "$on_path"; then
      link_deno "$on_path"
      return
    fi
  done < <(type -aP deno)
  deno_from_pypi || deno_from_npm "$arch" ||
    die "Deno $deno_version is needed: put it on PATH, or pip or npm with a registry that has it, or name one in GUESTD_DENO"
}
