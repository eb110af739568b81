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

# The parts of build.sh share its variables and its set -e, which a look at one file alone cannot see.
shell_lint() {
  shellcheck .ci/run scripts/guestd image/*.sh &&
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
  if command -v shellcheck >/dev/null; then checked "shellcheck" shell_lint; fi
  if command -v hadolint >/dev/null; then checked "hadolint" hadolint image/Dockerfile; fi
  [ ${#bad[@]} -eq 0 ] || { say "failed: $(IFS=,; echo "${bad[*]}")"; return 1; }
}
